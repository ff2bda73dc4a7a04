#!/bin/sh
# Runs gantry-device, and again when it crashes; put here by `gantry boards setup`. After a reset of the board, start it
# again with this file, e.g. by a line "@reboot FOLDER/run" of crontab -e. A line "stop" into the pipe `control` ends it.
#
# The server writes into the same pipe and holds it open: the pipe's end is the server's. From its start to its end only
# commands of the shell itself run here, so that nothing takes note of its end, and its number stays its own, until `wait`.
#
# What the server tells goes into `log`, of which one older part is kept as `log.old`: refused connections are told too,
# and others decide how many there are.

folder=$(cd "$(dirname "$0")" && pwd) || exit 1
# By its whole name, which tells that it runs.
[ "$0" = "$folder/run" ] || exec sh "$folder/run"
for other in /proc/[0-9]*; do
  [ "$other" = "/proc/$$" ] && continue
  case $(tr '\0' ' ' 2>/dev/null <"$other/cmdline") in
    "sh $folder/run " | "/bin/sh $folder/run ")
      echo "$folder/run runs already" >&2
      exit 1
      ;;
  esac
done
umask 077
cd "$folder" || exit 1

# Takes lines up to their end, which is that of all who write them.
keep_log() {
  most=262144
  size=0
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line" >>log
    size=$((size + ${#line} + 1))
    if [ "$size" -ge "$most" ]; then
      mv -f log log.old
      size=0
    fi
  done
}

[ -p control ] || mkfifo control || exit 1
trap 'rm -f control told' EXIT
rm -f said log.old
: >log
[ -p told ] || mkfifo told || exit 1
keep_log <told &
keeper=$!
exec 4>told
# Whoever needs it has it open.
rm -f told
OPTIONS=
. ./options
user=
[ "$(id -u)" = 0 ] && user='--user gantry'

while :; do
  # Both are several words.
  "$folder/gantry-device" serve $user --key "$folder/keys" --cache "$folder/cache" $OPTIONS </dev/null >control 2>&4 4>&- &
  server=$!
  exec 3<control
  stop=
  while read -r line <&3; do
    if [ "$line" = stop ]; then
      stop=yes
      kill "$server"
      break
    fi
    echo "$line" >said
  done
  exec 3<&-
  wait "$server"
  code=$?
  # A wrong option or key is wrong the next time too, as is what never began to listen.
  [ -z "$stop" ] && [ "$code" -ne 1 ] && [ -s said ] || break
  sleep 5
done
# Its last words are in the log before anybody looks.
exec 4>&-
wait "$keeper"
exit 1
