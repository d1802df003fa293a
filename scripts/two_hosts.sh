#!/usr/bin/env bash
# Runs a command as two processes on two hosts of its own on this machine: network namespaces, with a link of a
# given speed between them. For measuring and testing what crosses a network; needs root and iproute2.
#   scripts/two_hosts.sh [--rate 1gbit] [--delay 0.1ms] COMMAND …
#   scripts/two_hosts.sh --check     whether this machine can
# Without the kernel's netem a delay is refused. To stop the link while it runs: kill -USR2 this script. What of
# COMMAND still runs half a minute after mpirun has ended is killed, and named.
set -euo pipefail

rate=1gbit
delay=""
while (($# > 0)); do
  case "$1" in
    --rate) rate=$2 && shift 2 ;;
    --delay) delay=$2 && shift 2 ;;
    --check) set -- true && break ;;
    -h | --help)
      sed -n '2,7s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) break ;;
  esac
done
fail() {
  printf 'two_hosts: error: %s\n' "$*" >&2
  exit 1
}
(($# > 0)) || fail "give a command to run; see --help"
((EUID == 0)) || fail "making network namespaces needs root"
for tool in ip tc mpirun unshare ps; do
  command -v "$tool" > /dev/null || fail "$tool is missing: apt-get install iproute2 openmpi-bin util-linux procps"
done

work=$(mktemp -d)
hosts=("comera-$$-a" "comera-$$-b")
# shellcheck disable=SC2317 # the trap calls it
clean() {
  for host in "${hosts[@]}"; do
    # MPI's own daemon may wait longer for a link that is down: it is not named.
    for ((second = 0; second < 30; ++second)); do
      ip netns pids "$host" 2> /dev/null | xargs -r -n 1 ps -o args= -p | grep -qv orted || break
      sleep 1
    done
    if ((second == 30)); then
      printf 'two_hosts: error: killed what was left:\n' >&2
      ip netns pids "$host" | xargs -r -n 1 ps -o pid=,args= -p >&2
    fi
    ip netns pids "$host" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
    ip netns del "$host" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT

for host in "${hosts[@]}"; do ip netns add "$host"; done
ip link add veth0 netns "${hosts[0]}" type veth peer name veth0 netns "${hosts[1]}"
for number in 0 1; do
  host=${hosts[number]}
  ip -n "$host" addr add "10.99.0.$((number + 1))/24" dev veth0
  ip -n "$host" link set lo up
  ip -n "$host" link set veth0 up
  # One packet at a time may not be larger than the bucket: no segmentation offload.
  if command -v ethtool > /dev/null; then ip netns exec "$host" ethtool -K veth0 tso off gso off gro off > /dev/null || true; fi
  tc -n "$host" qdisc add dev veth0 root handle 1: tbf rate "$rate" burst 256kb latency 50ms
  if [[ -n $delay ]]; then
    tc -n "$host" qdisc add dev veth0 parent 1: handle 2: netem delay "$delay" 2> /dev/null ||
      fail "this kernel has no netem: leave --delay out"
  fi
done
trap 'ip -n "${hosts[1]}" link set veth0 down' USR2

# mpirun starts the other host's part through this instead of ssh. Each host has a name of its own.
cat > "$work/agent" << AGENT
#!/bin/sh
shift
exec ip netns exec ${hosts[1]} unshare --uts sh -c "hostname host-b; \$*"
AGENT
chmod +x "$work/agent"
printf '10.99.0.1 slots=1\n10.99.0.2 slots=1\n' > "$work/hosts"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
status=0
ip netns exec "${hosts[0]}" unshare --uts sh -c 'hostname host-a; exec "$@"' sh \
  mpirun -np 2 --hostfile "$work/hosts" --map-by node --bind-to none --mca plm_rsh_agent "$work/agent" \
  --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include veth0 --mca oob_tcp_if_include veth0 "$@" &
child=$!
while true; do
  wait "$child" && status=0 || status=$?
  kill -0 "$child" 2> /dev/null || break # else a signal interrupted the wait
done
exit "$status"
