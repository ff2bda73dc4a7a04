# Finds out what the board is, as whoever ssh logs in; changes nothing.

# installed NAME FOLDER: what setup has put there.
installed() {
  [ -e "$2" ] || return 0
  if [ -f "$2/manifest" ]; then
    say "$1-folder set-up $("$2/gantry-device" --version 2>/dev/null | head -n 1)"
  elif [ -f "$2/manifest.pending" ]; then
    # Of one that was cut off, nothing counts.
    if is_owned "$2"; then say "$1-folder busy"; fi
  else
    say "$1-folder foreign"
  fi
}

# Where a unit of that name is that setup has not made, as the package's is.
foreign_unit() {
  for place in /etc /lib /usr/lib /usr/local/lib; do
    unit=$place/systemd/system/gantry-device.service
    [ -e "$unit" ] && [ ! -L "$unit" ] && say "unit $unit"
  done
}

# Units of the user's own outlive the session where systemd keeps the user's manager.
user_manager() {
  has systemctl && has loginctl && [ "$(loginctl show-user "$(id -un)" --property Linger --value 2>/dev/null)" = yes ] &&
    systemctl --user show --property Version >/dev/null 2>&1
}

probe() {
  say "machine $(uname -m)"
  say "system $(uname -s) $(uname -r)"
  say "user $(id -un)"
  say "home $HOME"
  if [ "$(id -u)" = 0 ]; then
    say 'rights root'
  elif has sudo && sudo -n true 2>/dev/null </dev/null; then
    say 'rights sudo'
  else
    say 'rights user'
  fi
  if [ -d /run/systemd/system ] && has systemctl; then say 'systemd yes'; fi
  user_manager && say 'user-manager yes'
  for tool in cat chmod chown cp dd df dirname find grep head id mkdir mkfifo mv rm rmdir sha256sum sleep tail tr uname wc; do
    has "$tool" || say "missing $tool"
  done
  [ -r /proc/net/tcp ] || say 'missing /proc'
  id gantry >/dev/null 2>&1 || has useradd || has adduser || say 'no-user gantry'
  port_taken "$1" && say "taken $1"
  place=/opt
  [ -d /opt ] || place=/
  room=$(free_room "$place")
  [ -n "$room" ] && say "free-system $room"
  room=$(free_room "$HOME")
  [ -n "$room" ] && say "free-user $room"
  installed system /opt/gantry-device
  installed user "$HOME/.gantry-device"
  foreign_unit
  say end
}

# Goes on with the next script, of so many bytes, as root where that is wanted: "next sudo 9000 setup".
next_script() {
  read -r word rights bytes verb || exit 0
  [ "$word" = next ] || exit 0
  run_it='eval "$(dd bs=1 count='$bytes' 2>/dev/null)"'
  if [ "$rights" = sudo ]; then exec sudo -n sh -c "$run_it" gantry-on-board "$verb"; fi
  exec sh -c "$run_it" gantry-on-board "$verb"
}

main() {
  probe "$1"
  next_script
}
