# Puts another program in the place of the one that setup put there; the old one comes back unless the workstation
# confirms that the new one answers.

undo() {
  trap '' HUP INT TERM PIPE
  trap - EXIT
  if [ -n "$swapped" ]; then
    mv "$folder/gantry-device.old" "$folder/gantry-device"
    stop_service
    if start_service 2>/dev/null; then say restored; else say 'error the old program is in its place again, but does not start'; fi
  else
    say undone
  fi 2>/dev/null
  [ -n "$staged" ] && rm -rf "$stage"
  exit 1
}

main() {
  trap undo EXIT
  trap 'exit 1' HUP INT TERM PIPE
  say ready
  read_header
  [ -f "$folder/manifest" ] || die "$folder has nothing that gantry has set up"
  while read -r kind value; do
    case $kind in
      service) service=$value ;;
      port) port=$value ;;
    esac
  done <"$folder/manifest"
  take_stage
  # An update that a reset interrupted.
  if [ -e "$folder/gantry-device.old" ]; then mv "$folder/gantry-device.old" "$folder/gantry-device" || exit 1; fi
  receive "$stage/gantry-device" "$program"
  chmod 755 "$stage/gantry-device"
  version_of "$stage/gantry-device"
  cp -p "$folder/gantry-device" "$stage/gantry-device.old" && mv "$stage/gantry-device.old" "$folder/gantry-device.old" ||
    die "$folder cannot be written to"
  swapped=yes
  mv "$stage/gantry-device" "$folder/gantry-device" || exit 1
  stop_service || die 'the server does not stop'
  start_service || die 'the server does not start with the new program'
  say started
  await_confirmation || exit 1
  swapped=
  rm -f "$folder/gantry-device.old"
  rm -rf "$stage"
  trap - EXIT
  say 'done'
}
