# What was installed, and how it goes again. A manifest has lines "KIND VALUE":
#   service KIND, port NUMBER      as they were chosen
#   file NAME, tree NAME, folder NAME   in its folder; a tree goes with all that is in it
#   user NAME, parent PATH         made for it

delete_user() {
  id "$1" >/dev/null 2>&1 || return 0
  if has userdel; then
    userdel "$1"
  else
    deluser "$1"
    if has delgroup && grep -q "^$1:" /etc/group; then delgroup "$1"; fi
  fi
}

# Whether setup has made the folder's parent, such as /opt, by the manifest $1: says so in $made_parent.
note_parent() {
  grep '^parent ' "$1" >/dev/null && made_parent=yes
  return 0
}

# Removes it where setup has made it, unless something is in it: when stage and folder are gone.
remove_parent() {
  [ -n "$made_parent" ] && rmdir "$(dirname "$folder")" 2>/dev/null
  return 0
}

# remove_installed FOLDER MANIFEST: stops the service, then removes exactly what the manifest lists, but the parent; what
# else lies in the folder stays, and is told. The manifest goes last, so that a removal that was cut off can go on.
remove_installed() {
  place=$1
  listed=$(cat "$2")
  while read -r kind value; do
    case $kind in
      service) service=$value ;;
      port) port=$value ;;
    esac
  done <<LIST
$listed
LIST
  if [ "$place" = "$folder" ]; then
    stop_service || die "the server does not stop"
    forget_service
  fi
  while read -r kind value; do
    case $kind in
      file) rm -f "$place/$value" ;;
      tree) rm -rf "${place:?}/$value" ;;
      folder) rmdir "$place/$value" 2>/dev/null ;;
      user) delete_user "$value" >&2 || die "user $value cannot be removed; try again" ;;
    esac
  done <<LIST
$listed
LIST
  rm -f "$2"
  rmdir "$place" 2>/dev/null || find "$place" -type f 2>/dev/null | while read -r left; do say "left $left"; done
  return 0
}
