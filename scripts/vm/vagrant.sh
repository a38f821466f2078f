# vagrant.sh: vm-run's backend "vagrant": the command, its folder and the folders
# that it may change are copied into the checkout's Vagrant machine and back.

vagrant_usable() { command -v vagrant >/dev/null || { echo "no vagrant: apt-get install vagrant vagrant-libvirt"; return 1; }; }

vagrant_run() {
  cd "$here/.." || exit 125
  local config=.vagrant/vm-run.ssh program list status
  mkdir -p .vagrant && exec 8>.vagrant/vm-run.lock && flock 8
  if ! { [ -s $config ] && ssh -F $config -o ConnectTimeout=10 default true; } 2>/dev/null; then
    vagrant up >&2 8>&- && vagrant ssh-config >$config || die "no Vagrant machine"
  fi
  exec 8>&-
  program=$(command -v "$1" || :)
  {
    printf 'cd %q || exit 125\n. %q\nexport PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n' "$dir" "$job/env"
    printf 'exec timeout -k 10 -s QUIT %q' "$limit"; printf ' %q' "$@"; echo
  } >"$job/run"
  list=("$job" "$dir" ${rw[@]+"${rw[@]}"})
  case $program in /usr/*|/bin/*|/sbin/*|'') ;; *) list+=("$(realpath "$program")");; esac
  tar -C / --exclude=.git --exclude=.vagrant --exclude='*.box' -cz -P "${list[@]}" | ssh -F $config default 'sudo tar -C / -xzP' || die "copy to the machine"
  ssh -F $config default "sudo unshare -n bash $job/run" </dev/null; status=$?
  [ ${#rw[@]} = 0 ] || ssh -F $config default "sudo tar -C / -czP $(printf '%q ' "${rw[@]}")" </dev/null | tar -C / -xzP
  ssh -F $config default "sudo rm -rf $job" </dev/null
  return $status
}
