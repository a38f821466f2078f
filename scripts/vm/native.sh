# native.sh: vm-run's backend "native", this kernel in namespaces of its own.

native_usable() {
  if [ -z "${need_ipvs-1}" ]; then
    [ "$(id -u)" = 0 ] || unshare --user --map-root-user --net true || { echo "neither root nor user namespaces"; return 1; }
    return 0
  fi
  [ "$(id -u)" = 0 ] || { echo "not root"; return 1; }
  [ -e /proc/net/ip_vs ] || modprobe -q ip_vs 2>/dev/null
  unshare --net test -e /proc/self/net/ip_vs || { echo "this kernel has no ip_vs"; return 1; }
}

# native_run runs the command with /run empty and the folders that programs
# write to covered by overlays, so that the machine's own files stay as they are.
native_run() {
  local user=()
  [ "$(id -u)" = 0 ] || user=(--user --map-root-user)
  printf '%s\n' ${rw[@]+"${rw[@]}"} >"$job/rw"
  # in the background: a trap waits for a foreground child, and TERM must end it
  setsid timeout -k 10 -s QUIT "$limit" unshare ${user[@]+"${user[@]}"} --net --mount --propagation private \
    bash "$here/vm/native-init" "$job" "$dir" "$@" </dev/null & pid=$!
  wait "$pid"; local status=$?
  kill -9 -- "-$pid" 2>/dev/null; pid=''
  return $status
}
