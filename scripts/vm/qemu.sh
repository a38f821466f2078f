# qemu.sh: vm-run's backend "qemu", a distribution's kernel in a virtual machine
# whose root is this machine's, by 9p.

qemu_usable() {
  command -v qemu-system-x86_64 >/dev/null || { echo "no qemu-system-x86_64: apt-get install qemu-system-x86"; return 1; }
  command -v busybox >/dev/null || { echo "no busybox: apt-get install busybox-static"; return 1; }
  command -v cpio >/dev/null || { echo "no cpio: apt-get install cpio"; return 1; }
  if [ -z "${QEMU_KERNEL:-}" ]; then
    local k
    for k in "/boot/vmlinuz-$(uname -r)" /boot/vmlinuz-*; do
      [ -r "$k" ] && [ -d "/lib/modules/${k#*vmlinuz-}" ] && QEMU_KERNEL=$k
    done
  fi
  [ -r "${QEMU_KERNEL:-}" ] || { echo "no readable kernel with modules: apt-get install linux-image-amd64, or set QEMU_KERNEL and QEMU_MODULES"; return 1; }
  QEMU_KERNEL=$(realpath "$QEMU_KERNEL")
  QEMU_MODULES=$(realpath "${QEMU_MODULES:-/lib/modules/${QEMU_KERNEL#*vmlinuz-}}")
}

# kvm_works: /dev/kvm may open and yet run no ordinary kernel (a software KVM
# such as PVM), so the processor's own flag is asked for as well.
kvm_works() { [ "${VMRUN_KVM-auto}" != 0 ] && [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; }

# qemu_modules lists the module files needed before the root is there, in their order.
qemu_modules() {
  local base=${QEMU_MODULES%/lib/modules/*}/ version=${QEMU_MODULES##*/} m
  depmod -b "$base" "$version" 2>/dev/null
  for m in virtio_pci virtio_mmio virtio_console 9pnet_virtio 9p overlay; do
    modprobe -d "$base" -S "$version" --show-depends "$m" 2>/dev/null
  done | awk '$1=="insmod" && !seen[$2]++ {print $2}'
}

# qemu_initrd makes the small root that mounts the real one and goes there.
qemu_initrd() {
  local ir=$job/ir busybox f n=100 i=0 d
  busybox=$(command -v busybox)
  mkdir -p "$ir/bin" "$ir/m" "$ir/proc" "$ir/dev" "$ir/lower" "$ir/t"
  cp "$busybox" "$ir/bin/busybox"
  for f in $(ldd "$busybox" 2>/dev/null | grep -o '/[^ ]*'); do mkdir -p "$ir${f%/*}"; cp "$f" "$ir$f"; done
  while read -r f; do
    case $f in *.xz) xz -dc "$f" >"$ir/m/$n.ko";; *.zst) zstd -dcq "$f" >"$ir/m/$n.ko";; *) cp "$f" "$ir/m/$n.ko";; esac
    n=$((n+1))
  done < <(qemu_modules)
  {
    printf '#!/bin/busybox sh\nPATH=/bin\njob=%s\n' "$job"
    cat <<'I'
exec >/dev/console 2>&1
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t devtmpfs dev /dev
for m in /m/*.ko; do insmod $m; done
O=trans=virtio,version=9p2000.L,msize=512000
mount -t tmpfs t /t; mkdir /t/up /t/work /t/new
mount -t 9p -o ro,cache=loose,$O root /lower || poweroff -f
mount -t overlay overlay -o lowerdir=/lower,upperdir=/t/up,workdir=/t/work /t/new || poweroff -f
cd /t/new
mount -t proc proc proc; mount -t devtmpfs dev dev; mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/host; mount -t 9p -o $O out run/host
I
    for d in ${rw[@]+"${rw[@]}"}; do printf 'mkdir -p %q; mount -t 9p -o $O rw%d %q\n' "./$d" $i "./$d"; i=$((i+1)); done
    # shellcheck disable=SC2016  # it is the guest's variable
    echo 'exec switch_root . $job/init stage2'
  } >"$ir/init"
  chmod +x "$ir/init"
  (cd "$ir" && find . | cpio -o -H newc --quiet -R 0:0) >"$job/initrd"
}

qemu_start() {
  qemu_initrd || die "initramfs not made"
  local accel=tcg,thread=multi,tb-size=512 cpu=max fs i=0 d
  if kvm_works; then accel=kvm cpu=host; fi
  # shellcheck disable=SC2054  # qemu's own commas
  fs=(-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=root,mount_tag=root
      -fsdev "local,id=out,path=$job/out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out)
  for d in ${rw[@]+"${rw[@]}"}; do
    fs+=(-fsdev "local,id=rw$i,path=$d,security_model=none,multidevs=remap" -device "virtio-9p-pci,fsdev=rw$i,mount_tag=rw$i"); i=$((i+1))
  done
  setsid qemu-system-x86_64 -M q35,smm=off,vmport=off -accel $accel -cpu $cpu -m "$mem" -smp "$cpus" \
    -nodefaults -no-user-config -display none -no-reboot -nic none \
    -kernel "$QEMU_KERNEL" -initrd "$job/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on tsc=reliable ${VMRUN_APPEND:-}" \
    -serial "file:$job/console" -device virtio-serial-pci \
    -chardev "file,id=o,path=$job/p1" -device virtserialport,chardev=o,name=vmrun.out \
    -chardev "file,id=e,path=$job/p2" -device virtserialport,chardev=e,name=vmrun.err \
    -object rng-random,id=rng0,filename=/dev/urandom -device virtio-rng-pci,rng=rng0 \
    "${fs[@]}" </dev/null >"$job/log" 2>&1 6>&- 7>&- &
  pid=$!
}

qemu_run() { guest_run qemu "$QEMU_MODULES" "$@"; }
