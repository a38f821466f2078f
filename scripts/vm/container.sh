# container.sh: vm-run's backend "container", a privileged container on this
# kernel, with the image that scripts/mkimage makes.

# container_engine prints the words that start a container here: the first that
# runs one. Inside a container or without systemd, podman needs the second form.
container_engine() {
  local image=${1:-} words
  if [ -n "${VMRUN_ENGINE:-}" ]; then echo "$VMRUN_ENGINE"; return; fi
  for words in "podman" "podman --runtime runc --cgroup-manager=cgroupfs" "docker"; do
    command -v "${words%% *}" >/dev/null || continue
    # shellcheck disable=SC2086  # words are words
    container_limits && $words run --rm "${limits[@]}" --privileged --network=none "$image" true >/dev/null 2>&1 && { echo "$words"; return; }
  done
  return 1
}

# container_limits sets limits: without CAP_SYS_RESOURCE the engine's default
# limits are more than may be set.
container_limits() {
  local l h
  limits=()
  for l in nofile:n nproc:u; do
    h=$(ulimit -H"${l#*:}"); [ "$h" = unlimited ] && h=16384
    [ "$h" -gt 16384 ] && h=16384
    limits+=(--ulimit "${l%:*}=$h:$h")
  done
}

container_usable() {
  command -v podman >/dev/null || command -v docker >/dev/null || { echo "neither podman nor docker: apt-get install podman runc"; return 1; }
  image=${VMRUN_IMAGE:-localhost/toyproxy-test:latest}
  engine=$(container_engine "$image") || { echo "no engine can run the image $image: scripts/mkimage makes it"; return 1; }
}

container_run() {
  local top words volumes d folder limits
  top=$(git -C "$dir" rev-parse --show-toplevel 2>/dev/null || echo "$dir")
  read -r -a words <<<"$engine"
  volumes=(-v "$top:$top:ro" -v "$job:$job"); for d in ${rw[@]+"${rw[@]}"}; do volumes+=(-v "$d:$d"); done
  if folder=$(command -v "$1") && folder=$(realpath "${folder%/*}"); then
    case $folder/ in
      /usr/*|/bin/*|/sbin/*|"$top"/*) ;;
      *) [[ " ${rw[*]-} " == *" $folder "* ]] || volumes+=(-v "$folder:$folder:ro");;
    esac
  fi
  container_limits
  # the script is the container's, its variables too
  # shellcheck disable=SC2016
  timeout -k 10 -s QUIT "$limit" "${words[@]}" run --rm "${limits[@]}" --privileged --network=none --tmpfs /run --tmpfs /tmp:exec \
    "${volumes[@]}" "$image" bash -c '
      . "$1/env"; export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
      ip link set lo up; mkdir -p /run/netns /run/lock; cd "$2" && shift 2 && exec "$@"' bash "$job" "$dir" "$@" </dev/null
}
