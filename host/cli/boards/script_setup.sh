# Sets the server up, or leaves nothing: everything is put together in one folder, which gets its name when it is whole;
# then the server starts, and stays if the workstation confirms that it answers.

undo() {
  trap '' HUP INT TERM PIPE
  trap - EXIT
  if [ -n "$committed" ]; then discard "$folder"; fi
  if [ -n "$staged" ]; then discard "$stage"; fi
  remove_parent
  say undone 2>/dev/null
  exit 1
}

make_user() {
  if has useradd; then
    useradd --system --user-group --no-create-home --home-dir "$folder/cache" --shell /usr/sbin/nologin gantry
  else
    addgroup -S gantry && adduser -S -D -H -h "$folder/cache" -s /sbin/nologin -G gantry gantry
  fi >&2 || die 'a user gantry, which the server becomes, cannot be made'
}

# Before anything that it lists is made.
write_manifest() {
  {
    echo "service $service"
    echo "port $port"
    for name in gantry-device gantry-device.old options "$starter_name" "keys/$key_name" owner control said told log log.old; do
      echo "file $name"
    done
    echo 'tree cache'
    echo 'folder keys'
    if [ "$as_root" = yes ] && ! id gantry >/dev/null 2>&1; then echo 'user gantry'; fi
    [ -n "$made_parent" ] && echo "parent $parent"
    echo 'file manifest'
  } >"$stage/manifest.pending" || die "$stage cannot be written to"
}

put_together() {
  mkdir "$stage/keys" "$stage/cache" || die "$stage cannot be written to"
  receive "$stage/gantry-device" "$program"
  chmod 755 "$stage/gantry-device"
  version_of "$stage/gantry-device"
  receive "$stage/keys/$key_name" "$key"
  receive "$stage/options" "$options"
  receive "$stage/$starter_name" "$starter"
  if [ "$service" = background ]; then chmod 700 "$stage/run"; fi
  if [ "$as_root" = yes ]; then
    id gantry >/dev/null 2>&1 || make_user
    chown gantry "$stage/cache" || die "$stage/cache cannot be given to user gantry"
    # Whom the server becomes goes through; keys and cache are closed.
    chmod 755 "$stage"
  fi
}

main() {
  as_root=no
  [ "$(id -u)" = 0 ] && as_root=yes
  trap undo EXIT
  trap 'exit 1' HUP INT TERM PIPE
  say ready
  read_header
  starter_name=gantry-device.service
  [ "$service" = background ] && starter_name=run
  parent=$(dirname "$folder")
  if [ ! -d "$parent" ]; then
    made_parent=yes
    mkdir "$parent" && chmod 755 "$parent" || die "$parent cannot be made"
  fi
  take_stage
  if [ -e "$folder" ]; then
    [ -f "$folder/manifest.pending" ] && ! is_owned "$folder" || die "$folder is there already"
    discard "$folder"
  fi
  port_taken "$port" && die "port $port is taken"
  write_manifest
  put_together
  committed=yes
  mv "$stage" "$folder" || die "$stage cannot be renamed"
  start_service || die 'the server does not start'
  say started
  await_confirmation || exit 1
  rm -f "$folder/owner"
  mv "$folder/manifest.pending" "$folder/manifest" || die "$folder/manifest cannot be written"
  trap - EXIT
  say 'done'
}
