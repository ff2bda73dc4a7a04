#!/bin/sh
# Runs gantry-device, and again when it crashes; put here by `gantry boards setup`. After a reset of the board, start it
# again with this file, e.g. by a line "@reboot FOLDER/run" of crontab -e. A line "stop" into the pipe `control` ends it.
#
# The server writes into the same pipe and holds it open: the pipe's end is the server's. From its start to its end only
# commands of the shell itself run here, so that nothing takes note of its end, and its number stays its own, until `wait`.

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
[ -p control ] || mkfifo control || exit 1
trap 'rm -f control' EXIT
rm -f said
: >log
OPTIONS=
. ./options
user=
[ "$(id -u)" = 0 ] && user='--user gantry'

while :; do
  # Both are several words.
  "$folder/gantry-device" serve $user --key "$folder/keys" --cache "$folder/cache" $OPTIONS </dev/null >control 2>>log &
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
  [ -z "$stop" ] && [ "$code" -ne 1 ] && [ -s said ] || exit 1
  sleep 5
done
