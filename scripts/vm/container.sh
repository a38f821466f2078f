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
  local top words volumes d folder limits running status
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
  container=vm-run-${job##*.}
  # The script is the container's, its variables too. Bash stays the first process:
  # one that is first cannot be killed by a signal of its own.
  # shellcheck disable=SC2016
  "${words[@]}" run --rm --name "$container" "${limits[@]}" --privileged --network=none --tmpfs /run --tmpfs /tmp:exec \
    "${volumes[@]}" "$image" bash -c '
      . "$1/env"; export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
      ip link set lo up; mkdir -p /run/netns /run/lock
      cd "$2" || exit 125; limit=$3; shift 3
      timeout -k 10 -s QUIT "$limit" "$@"; exit' bash "$job" "$dir" "$limit" "$@" </dev/null & running=$!
  # in the background: a trap waits for a foreground child, and TERM must end it
  wait "$running"; status=$?; container=''
  return $status
}

# container_end removes the container of a run that was broken off.
container_end() {
  local words; read -r -a words <<<"${engine:-false}"
  [ -z "${container:-}" ] || "${words[@]}" kill "$container" >/dev/null 2>&1
}
