# The server as a service: of systemd ("systemd"), of the user's systemd ("systemd-user"), or of the folder's program
# `run` ("background").

manager() {
  if [ "$service" = systemd-user ]; then systemctl --user "$@"; else systemctl "$@"; fi
}

# Starts it; fails where it does not come to listen.
start_service() {
  if [ "$service" = background ]; then
    start_background
  else
    manager --quiet enable "$folder/gantry-device.service" 2>/dev/null || manager enable "$folder/gantry-device.service" >&2 ||
      return 1
    manager restart gantry-device.service && return 0
    if [ "$service" = systemd ]; then
      journalctl --unit gantry-device.service --lines 5 --output cat --no-pager >&2
    else
      manager status --no-pager --lines 5 gantry-device.service >&2
    fi
    return 1
  fi
}

# Ends it; succeeds where it does not run either.
stop_service() {
  if [ "$service" = background ]; then
    stop_background
  else
    # What was never linked, or is not any more, cannot be stopped: nothing runs.
    manager stop gantry-device.service ||
      [ "$(manager show --property LoadState --value gantry-device.service)" = not-found ]
  fi
}

forget_service() {
  [ "$service" = background ] && return 0
  manager --quiet disable gantry-device.service
  manager --quiet reset-failed gantry-device.service 2>/dev/null
  manager daemon-reload
}

# Whether `run` of this folder does.
keeper_runs() {
  words_of | grep "^$folder/[r]un\$" >/dev/null
}

start_background() {
  rm -f "$folder/said" "$folder/log" "$folder/log.old"
  [ -p "$folder/control" ] || mkfifo "$folder/control" || return 1
  detach=
  has setsid && detach=setsid
  # With the usual signals, whatever this script does with its own.
  (
    trap - HUP INT TERM PIPE
    exec $detach sh "$folder/run" </dev/null >/dev/null 2>&1
  ) &
  # It tells what the server said when it began to listen, and takes `control` away when it ends.
  tries=0
  while [ ! -s "$folder/said" ] && [ -p "$folder/control" ] && [ "$tries" -lt 600 ]; do
    pause
    tries=$((tries + 1))
    # One that ended before it could take `control` away.
    [ "$tries" -gt 50 ] && ! keeper_runs && break
  done
  [ -s "$folder/said" ] && return 0
  tail -n 3 "$folder/log" >&2
  return 1
}

# `control` goes a moment before `run` does.
await_keeper() {
  tries=0
  while keeper_runs && [ "$tries" -lt 50 ]; do
    pause
    tries=$((tries + 1))
  done
  return 0
}

stop_background() {
  [ -p "$folder/control" ] || {
    await_keeper
    return 0
  }
  # Open for both, so that it waits for nobody, and until it is read.
  exec 4<>"$folder/control"
  echo stop >&4
  tries=0
  while [ -p "$folder/control" ] && [ "$tries" -lt 700 ]; do
    pause
    tries=$((tries + 1))
    # One of before a reset; one that begins has some seconds.
    [ "$tries" -gt 50 ] && ! keeper_runs && break
  done
  exec 4>&-
  [ -p "$folder/control" ] && keeper_runs && return 1
  rm -f "$folder/control"
  await_keeper
}
