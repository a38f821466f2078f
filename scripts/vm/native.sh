# native.sh: vm-run's backend "native", this kernel in namespaces of its own.

native_usable() {
  if [ -n "${need_ipvs-1}" ]; then
    [ "$(id -u)" = 0 ] || { echo "not root"; return 1; }
    [ -e /proc/net/ip_vs ] || modprobe -q ip_vs 2>/dev/null
    unshare --net test -e /proc/self/net/ip_vs || { echo "this kernel has no ip_vs"; return 1; }
  fi
  namespaces=(--net --mount --propagation private)
  [ "$(id -u)" = 0 ] || namespaces=(--user --map-root-user "${namespaces[@]}")
  # processes of its own too, so that none outlives the command, where /proc can
  # be mounted (not in every container)
  local processes=(--pid --fork --kill-child --mount-proc)
  if unshare "${namespaces[@]}" "${processes[@]}" true 2>/dev/null; then namespaces+=("${processes[@]}"); return 0; fi
  unshare "${namespaces[@]}" true || { echo "neither root nor user namespaces"; return 1; }
}

# native_run runs the command with /run empty and the folders that programs
# write to covered by overlays, so that the machine's own files stay as they are.
native_run() {
  local status
  printf '%s\n' ${rw[@]+"${rw[@]}"} >"$job/rw"
  # in the background: a trap waits for a foreground child, and TERM must end it
  setsid unshare "${namespaces[@]}" bash "$here/vm/native-init" "$job" "$dir" "$limit" "$@" </dev/null & pid=$!
  wait "$pid"; status=$?
  kill -9 -- "-$pid" 2>/dev/null; pid=''
  return $status
}
