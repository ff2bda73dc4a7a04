# Removes what setup put there; goes on to the end when the workstation goes.

main() {
  trap '' HUP INT TERM PIPE
  say ready
  read_header
  manifest=$folder/manifest
  [ -f "$manifest" ] || manifest=$folder/manifest.pending
  if [ ! -f "$manifest" ]; then
    [ -d "$folder.partial" ] && ! is_owned "$folder.partial" && discard "$folder.partial"
    remove_parent
    say absent
    exit 0
  fi
  is_owned "$folder" && die "another gantry works on this board ($folder); wait for it"
  take_stage
  note_parent "$manifest"
  remove_installed "$folder" "$manifest"
  rm -rf "$stage"
  remove_parent
  say 'done'
}
