# uml.sh: vm-run's backend "uml", a User Mode Linux kernel as an ordinary process.

uml_usable() {
  # a kernel of scripts/build-uml has everything built in: no modules
  if [ -z "${UML_KERNEL:-}" ] && [ -x "$here/../bin/linux-uml" ]; then UML_KERNEL=$here/../bin/linux-uml UML_MODULES=; fi
  UML_KERNEL=${UML_KERNEL:-$(command -v linux.uml || :)}
  [ -x "$UML_KERNEL" ] || { echo "no linux.uml: apt-get install user-mode-linux, or set UML_KERNEL"; return 1; }
  UML_KERNEL=$(realpath "$UML_KERNEL") UML_MODULES=${UML_MODULES-/usr/lib/uml/modules}
  ! uml_amx || command -v cc >/dev/null || { echo "this processor has AMX, where linux.uml needs a C compiler to start: apt-get install gcc libc6-dev"; return 1; }
}

# uml_amx tells whether linux.uml needs vm/xstate.c here.
uml_amx() { grep -qw amx_tile /proc/cpuinfo; }

# uml_memory_dir finds a place for the guest's memory, a sparse file mapped
# executable: /dev/shm unless that is too small or noexec (containers).
uml_memory_dir() {
  local mb=${mem%[MmGg]} d x; case $mem in *[Gg]) mb=$((mb*1024));; esac
  for d in /dev/shm "$tmp" /tmp /var/tmp; do
    [ -w "$d" ] && [ "$(df -Pm "$d" | awk 'END{print $4}')" -ge "$mb" ] || continue
    x=$(mktemp "$d/vm-run.XXXXXX") || continue
    printf '#!/bin/sh\n' >"$x"; chmod +x "$x"
    if "$x" 2>/dev/null; then rm -f "$x"; echo "$d"; return; fi
    rm -f "$x"
  done
  echo "$tmp"
}

# uml_pin sets pin to the words that keep the guest on one processor. UML is one
# processor made of processes that wait for each other in turn: on one processor
# they are 3 to 5 times as fast as spread over several. Each run takes a free one,
# held by a lock on its folder in /sys (descriptor 8), else any.
uml_pin() {
  pin=()
  command -v taskset >/dev/null || return
  local c
  for c in $(awk '/^Cpus_allowed_list/{n=split($2,a,",");for(i=1;i<=n;i++){split(a[i],b,"-");for(c=b[1];c<=(b[2]==""?b[1]:b[2]);c++)print c}}' /proc/self/status | shuf); do
    pin=(taskset -c "$c")
    { exec 8<"/sys/devices/system/cpu/cpu$c"; } 2>/dev/null && flock -n 8 && return
  done
}

uml_start() {
  local preload='' pin
  if uml_amx; then
    preload=$job/xstate.so
    cc -O2 -Wall -shared -fPIC -o "$preload" "$here/vm/xstate.c" || die "vm/xstate.c does not compile: apt-get install gcc libc6-dev"
  fi
  uml_pin
  LD_PRELOAD=$preload TMPDIR=$(uml_memory_dir) setsid ${pin[@]+"${pin[@]}"} "$UML_KERNEL" mem="$mem" \
    root=/dev/root rootfstype=hostfs rootflags=/ ro init="$job/init" \
    con=null con0=null,fd:5 ssl=null ssl0=null,fd:3 ssl1=null,fd:4 umid=vm uml_dir="$job/" quiet \
    </dev/null >"$job/log" 2>&1 3>"$job/p1" 4>"$job/p2" 5>"$job/console" 6>&- 7>&- 8>&- &
  pid=$!
}

uml_run() { guest_run uml "$UML_MODULES" "$@"; }
