# guest.sh: what vm-run's backends with a kernel of their own (uml, qemu) share:
# the job folder that vm/guest-init reads, the pipes for the output, the watchdog.

# Loaded in guests with modules. All schedulers are loaded here and not left to
# the kernel, for the reason that vm-provision gives.
guest_modules=${VMRUN_MODULES-"ipv6 dummy veth bridge br_netfilter tun sctp
  ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_sh ip_vs_mh ip_vs_dh ip_vs_sed ip_vs_nq ip_vs_fo ip_vs_ovf ip_vs_lblc ip_vs_lblcr
  nf_conntrack nf_conntrack_netlink nf_nat iptable_nat iptable_filter iptable_mangle ip6table_nat ip6table_filter ip6table_mangle
  nf_tables nft_compat nft_chain_nat nft_ct nft_nat nft_masq nft_redir nft_reject nft_numgen nft_hash nft_fib nft_fib_inet nft_fib_ipv4 nft_fib_ipv6 nft_limit nft_log nft_objref
  ip_set ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip ip_set_hash_ipportnet ip_set_hash_net ip_set_bitmap_port ip_set_list_set
  xt_set xt_ipvs xt_comment xt_conntrack xt_mark xt_statistic xt_recent xt_addrtype xt_multiport xt_tcpudp xt_nat xt_MASQUERADE xt_REDIRECT ipt_REJECT ip6t_REJECT"}

# guest_job MODULES COMMAND...: what the guest is to do.
guest_job() {
  local modules=$1 d; shift
  mkdir "$job/out" || die "no job folder"
  {
    printf 'backend=%q\ndir=%q\nlimit=%q\nmoddir=%q\nmods=%q\njob=%q\n' \
      "$backend" "$dir" "$limit" "$modules" "${guest_modules//$'\n'/ }" "$job"
    printf 'rw=('; for d in ${rw[@]+"${rw[@]}"}; do printf '%q ' "$d"; done
    printf ')\ncmd=('; printf '%q ' "$@"; printf ')\n'
  } >"$job/conf"
  cp "$here/vm/guest-init" "$job/init" && chmod +x "$job/init"
}

# guest_watch kills a guest that does not come up (VMRUN_BOOT_TIMEOUT) or hangs;
# an ordinary one ends its command itself.
guest_watch() {
  local seconds=0 up=0
  while sleep 1; do
    seconds=$((seconds+1)); [ -e "$job/out/booted" ] && up=$((up+1))
    if [ $up -gt $((limit+60)) ]; then echo hang >"$job/late"; break; fi
    if [ $up = 0 ] && [ $seconds -gt "${VMRUN_BOOT_TIMEOUT:-180}" ]; then echo boot >"$job/late"; break; fi
  done
  kill -9 -- "-$pid"
}

guest_report() {
  [ "$verbose" = 0 ] && return
  echo "$prog: $backend: up at $(cat "$job/out/booted" 2>/dev/null) s, ended at $(cat "$job/out/ended" 2>/dev/null) s of guest time, $1 ms in all" >&2
  [ "$verbose" -lt 2 ] || cat "$job/out/modprobe" "$job/out/dmesg" "$job/console" >&2 2>/dev/null
}

# guest_run BACKEND MODULES COMMAND... starts the guest by BACKEND_start, which
# sets pid, and gives the command's status. Output goes through pipes of our own,
# so that it does not matter whether ours are files, terminals or pipes.
guest_run() {
  local name=$1 modules=$2 p1 p2 t0 status; shift 2
  guest_job "$modules" "$@"
  mkfifo "$job/p1" "$job/p2"
  exec 6<>"$job/p1" 7<>"$job/p2"
  cat <"$job/p1" 6>&- 7>&- & p1=$!
  cat <"$job/p2" >&2 6>&- 7>&- & p2=$!
  t0=${EPOCHREALTIME/./}
  "${name}_start"
  guest_watch >/dev/null 2>&1 6>&- 7>&- 8>&- & dog=$!
  wait "$pid"; status=$?
  kill $dog 2>/dev/null; dog=''
  kill -9 -- "-$pid" 2>/dev/null; pid=''
  exec 6>&- 7>&-; wait $p1 $p2
  guest_report $(((${EPOCHREALTIME/./}-t0)/1000))
  [ -s "$job/out/rc" ] && return "$(cat "$job/out/rc")"
  echo "$prog: $name: the guest ended without a result (status $status)" >&2
  cat "$job/log" "$job/console" >&2
  [ "$(cat "$job/late" 2>/dev/null)" = hang ] && return 124
  return 125
}
