# What gantry does on a board, over ssh: the parts of this script, of which gantry sends those that it needs, are for any
# POSIX shell (dash, busybox). The workstation speaks on stdin, the script answers on stdout in lines that begin with
# "@gantry", what goes wrong is told on stderr.
#
# Nothing is done before the last line has arrived: all but that is functions, so that a script that was cut does nothing.
# No process is ended by a number that was written down: a service manager ends its services, `run` its own child.

# Administrators' programs are not on the path of every session.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
umask 077

say() {
  printf '@gantry %s\n' "$*"
}

die() {
  say "error $*" || :
  exit 1
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# within SECONDS COMMAND…: where the system has timeout(1), no longer than that: a workstation that lost its power sends
# no end of file.
within() {
  if timeout 1 true 2>/dev/null; then timeout "$@"; else shift; "$@"; fi
}

pause() {
  sleep 0.1 2>/dev/null || sleep 1
}

# Whether something listens on TCP port $1, by any address. 0A: listening.
port_taken() {
  hex=$(printf ':%04X' "$1")
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | {
    while read -r _ local _ state _; do
      case "$local $state" in *"$hex 0A") exit 0 ;; esac
    done
    exit 1
  }
}

# KiB that are free where the folder $1 is; nothing where df cannot tell, as busybox's of a root that is no mount.
free_room() {
  df -Pk "$1" 2>/dev/null | {
    read -r _
    read -r _ _ _ free _
    echo "$free"
  }
}

# Lines "NAME VALUE" of the workstation up to "end", as variables of known names.
read_header() {
  while read -r name value; do
    case $name in
      end) return 0 ;;
      folder) folder=$value ;;
      service) service=$value ;;
      port) port=$value ;;
      key_name) key_name=$value ;;
      program) program=$value ;;
      key) key=$value ;;
      options) options=$value ;;
      starter) starter=$value ;;
    esac
  done
  exit 1  # cut off
}

# receive FILE "BYTES SHA256": asks for these bytes and takes them. The workstation sends no more before the next
# question, so that it does not matter how much a program reads at once.
receive() {
  size=${2%% *}
  say "send ${1##*/}"
  if [ "$(printf abc | head -c 2 2>/dev/null)" = ab ]; then
    within 900 head -c "$size" >"$1"
  else
    within 900 dd bs=1 count="$size" 2>/dev/null >"$1"
  fi || die "$1 cannot be written"
  [ "$(wc -c <"$1")" -eq "$size" ] || exit 1  # cut off
  sum=$(sha256sum <"$1")
  [ "${sum%% *}" = "${2#* }" ] || die "${1##*/} arrived damaged; try again"
}

# What the program $1 says of its version; an error where it does not run here.
version_of() {
  said=$("$1" --version 2>&1) || die "the program does not run there: $(printf '%s' "$said" | head -n 1)"
  say "version $said"
}

# "confirm", 8 bytes, keeps what was done. Anything else, the end of the connection included, undoes it; "waiting" asks
# for more time.
await_confirmation() {
  while :; do
    case $(within 300 dd bs=1 count=8 2>/dev/null) in
      confirm) return 0 ;;
      waiting) ;;
      *) return 1 ;;
    esac
  done
}

# The words of all processes' command lines, or of process $1's, a line each: not every busybox's grep looks behind a 0.
words_of() {
  cat /proc/${1:-[0-9]*}/cmdline 2>/dev/null | tr '\0' '\n'
}

# Whether the script that wrote its number into $1/owner still runs.
is_owned() {
  read -r owner 2>/dev/null <"$1/owner" || return 1
  case $owner in '' | *[!0-9]*) return 1 ;; esac
  words_of "$owner" | grep -x gantry-on-board >/dev/null
}

# Makes the folder that everything is put together in, of which there can be one; what a reset board left is undone.
take_stage() {
  stage=$folder.partial
  if [ -d "$stage" ]; then
    [ -e "$stage/owner" ] || sleep 1
    is_owned "$stage" && die "another gantry works on this board ($stage); wait for it"
    discard "$stage"
  fi
  mkdir "$stage" || die "$stage cannot be made"
  staged=yes
  echo $$ >"$stage/owner" || die "$stage cannot be written to"
}

# Undoes what is in a folder that was not finished; its parent is for remove_parent.
discard() {
  if [ -f "$1/manifest.pending" ]; then
    note_parent "$1/manifest.pending"
    # By itself: its service and port are not those of this script.
    (remove_installed "$1" "$1/manifest.pending") || exit 1
  fi
  rm -rf "$1"
}
