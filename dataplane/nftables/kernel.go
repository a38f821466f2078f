package nftables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toyproxy/toyproxy/dataplane"
)

// settle is how long packets on their way are waited for before what they were
// led to is deleted.
const settle = 2 * time.Millisecond

// bufferSize is how much the kernel may have in flight towards us, and we
// towards it, in bytes.
const bufferSize = 4 << 20

// socket is a netlink socket in the namespace of the thread that opened it.
type socket struct {
	fd   int
	recv []byte
	out  batch
	// commits is how many transactions were made.
	commits uint32
	// guard is the generation of the kernel's rules that transactions have to
	// build upon; the kernel refuses them in any other. Zero: in any.
	guard uint32
}

func open() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
			return nil, unsupported(dataplane.IPv4, err)
		}
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	// Who may not have larger buffers has those that there are.
	for _, o := range []int{unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, bufferSize) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, map[int]int{unix.SO_SNDBUFFORCE: unix.SO_SNDBUF, unix.SO_RCVBUFFORCE: unix.SO_RCVBUF}[o], bufferSize)
		}
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("netlink socket: bind: %w", err)
	}
	return &socket{fd: fd, recv: make([]byte, 256<<10)}, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// unsupported tells that a kernel lacks nftables, or NAT in it.
func unsupported(f dataplane.Family, cause error) error {
	return fmt.Errorf("%w (%w)", &dataplane.Unsupported{Feature: "nftables for " + f.String(),
		Missing: "nf_tables with tables of family " + ipText(f) + ", chains of type nat, sets, fib, numgen, reject and masquerade (modules nf_tables, nft_chain_nat, nft_fib_" + strings.ToLower(f.String()) + ", nft_numgen, nft_reject, nft_masq)",
		Mend:    "load the modules, boot a kernel that has them, or choose --backend iptables"}, cause)
}

// transaction begins a transaction on our table; it ends with the next one.
func (s *socket) transaction(f dataplane.Family) *batch {
	s.out = batch{family: f, table: tableName, raw: s.out.raw[:0]}
	s.out.frame(unix.NFNL_MSG_BATCH_BEGIN, s.guard)
	return &s.out
}

// send gives a transaction to the kernel, which has done all of it, or nothing,
// when the call returns. Its answers are errors only. Without the mark of its end
// the kernel tries all of it and keeps nothing.
func (s *socket) send(b *batch, keep bool) error {
	if keep {
		b.frame(unix.NFNL_MSG_BATCH_END, 0)
	}
	if err := unix.Sendto(s.fd, b.raw, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink transaction of %d changes: %w", b.count, err)
	}
	var first error
	for {
		n, _, err := unix.Recvfrom(s.fd, s.recv, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			if first == nil && keep {
				s.committed()
			}
			return first
		}
		if err != nil && !errors.Is(err, unix.EINTR) && first == nil {
			first = fmt.Errorf("netlink answer: %w", err)
		}
		_ = messages(s.recv[:max(n, 0)], func(kind, _ uint16, body []byte) error {
			if e := answer(kind, body); e != 0 && first == nil {
				first = fmt.Errorf("change refused: %w", e)
			}
			return nil
		})
	}
}

// committed counts a transaction that was made.
func (s *socket) committed() {
	s.commits++
	if s.guard != 0 {
		s.guard = later(s.guard, 1)
	}
}

// generation is the number of the kernel's rules, of all tables: every change of
// any program gives them the next one.
func (s *socket) generation() (out uint32, err error) {
	b := newBatch(dataplane.IPv4)
	b.end(b.begin(unix.NFT_MSG_GETGEN, 0))
	err = s.ask(b, func(body []byte) {
		attributes(body, func(kind uint16, data []byte) {
			if kind == unix.NFTA_GEN_ID {
				out = number32(data)
			}
		})
	})
	if err != nil {
		return 0, fmt.Errorf("generation of nftables: %w", err)
	}
	return out, nil
}

// answer returns the error that a message tells of; zero for all others.
func answer(kind uint16, body []byte) unix.Errno {
	if (kind == unix.NLMSG_ERROR || kind == unix.NLMSG_DONE) && len(body) >= 4 {
		return unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
	}
	return 0
}

var (
	errDone        = errors.New("end of the dump")
	errInterrupted = errors.New("changed while it was read")
)

// ask sends one request and calls visit for the attributes of each answer.
func (s *socket) ask(b *batch, visit func([]byte)) error {
	if err := unix.Sendto(s.fd, b.raw, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink request: %w", err)
	}
	interrupted := false
	for {
		n, _, err := unix.Recvfrom(s.fd, s.recv, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("netlink answer: %w", err)
		}
		err = messages(s.recv[:n], func(kind, flags uint16, body []byte) error {
			interrupted = interrupted || flags&unix.NLM_F_DUMP_INTR != 0
			if e := answer(kind, body); e != 0 {
				return e
			}
			if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR {
				return errDone
			}
			visit(body[4:])
			if flags&unix.NLM_F_MULTI == 0 {
				return errDone
			}
			return nil
		})
		switch {
		case errors.Is(err, errDone) && interrupted, errors.Is(err, unix.EINTR):
			return errInterrupted
		case errors.Is(err, errDone):
			return nil
		case err != nil:
			return err
		}
	}
}

// request is a question about our table.
func request(f dataplane.Family, kind, flags uint16, tableAttr uint16, set string) *batch {
	b := newBatch(f)
	m := b.begin(kind, flags)
	b.text(tableAttr, tableName)
	if set != "" {
		b.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	}
	b.end(m)
	return b
}

// read returns what the kernel holds of our table. Somebody else may change it
// meanwhile: then it is read again.
func (s *socket) read(ctx context.Context, f dataplane.Family) (state, error) {
	for {
		st, err := s.readOnce(f)
		switch {
		case err == nil:
			return st, nil
		case ctx.Err() != nil:
			return state{}, fmt.Errorf("read of table %s %s: %w", ipText(f), tableName, ctx.Err())
		case !errors.Is(err, errInterrupted):
			return state{}, fmt.Errorf("read of table %s %s: %w", ipText(f), tableName, err)
		}
	}
}

func (s *socket) readOnce(f dataplane.Family) (state, error) {
	st := state{sets: map[string]setState{}, chains: map[string]chainState{}}
	err := s.ask(request(f, unix.NFT_MSG_GETTABLE, 0, unix.NFTA_TABLE_NAME, ""), st.readTable)
	for _, none := range []error{unix.ENOENT, unix.EINVAL, unix.EOPNOTSUPP, unix.EAFNOSUPPORT} {
		if errors.Is(err, none) { // no table, or a kernel that has no tables at all
			return st, nil
		}
	}
	if err != nil {
		return st, err
	}
	for _, q := range []struct {
		kind, attr uint16
		visit      func([]byte)
	}{
		{unix.NFT_MSG_GETCHAIN, unix.NFTA_CHAIN_TABLE, st.readChain},
		{unix.NFT_MSG_GETSET, unix.NFTA_SET_TABLE, st.readSet},
		{unix.NFT_MSG_GETRULE, unix.NFTA_RULE_TABLE, func(b []byte) { st.readRule(f, b) }},
	} {
		if err := s.ask(request(f, q.kind, unix.NLM_F_DUMP, q.attr, ""), q.visit); err != nil {
			return st, err
		}
	}
	for name, set := range st.sets {
		if set.shape.flags&unix.NFT_SET_EVAL != 0 {
			continue
		}
		if err := s.readSet(f, name, &set); err != nil {
			return st, err
		}
		st.sets[name] = set
	}
	return st, nil
}

// fewElements is how many elements the kernel tells of without a break.
const fewElements = 256

// readSet reads the elements of a set. While the kernel makes room for a set
// that has grown, its list may lack some: then it is read again, until there are
// as many as the kernel says, or as many as the time before.
func (s *socket) readSet(f dataplane.Family, name string, set *setState) error {
	for before := -1; ; before = set.len() {
		set.empty(f)
		if err := s.ask(request(f, unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, unix.NFTA_SET_ELEM_LIST_TABLE, name), set.readElements); err != nil {
			return err
		}
		n := set.len()
		switch {
		case set.count >= 0 && int64(n) == set.count, set.count < 0 && n <= fewElements, n == before && set.count < 0:
			return nil
		case set.count >= 0 && before >= 0: // somebody changes it: begin anew, with its count
			time.Sleep(settle)
			return errInterrupted
		}
	}
}

// write makes the changes of one stage.
func (s *socket) write(ctx context.Context, f dataplane.Family, ops []op) error {
	b := s.transaction(f)
	for i, o := range ops {
		if err := o(b); err != nil {
			return err
		}
		if i < len(ops)-1 && len(b.raw) < transactionSize {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.send(b, true); err != nil {
			return err
		}
		b = s.transaction(f)
	}
	return nil
}

// apply makes the changes of all tables in their order.
func (s *socket) apply(ctx context.Context, todo deltas) error {
	all := make([]stages, len(todo))
	for i := range todo {
		all[i] = todo[i].stages()
	}
	if err := s.commit(ctx, todo, all); err != nil {
		return err
	}
	return s.cleanUp(ctx, todo, all)
}

// commit makes the changes that packets see.
func (s *socket) commit(ctx context.Context, todo deltas, all []stages) error {
	for i, d := range todo {
		err := s.write(ctx, d.family, all[i].grow)
		if err == nil {
			err = s.write(ctx, d.family, all[i].leave)
		}
		if err != nil {
			return d.failed(err)
		}
	}
	return nil
}

// cleanUp deletes what no packet is led to any more, once those have arrived
// that were.
func (s *socket) cleanUp(ctx context.Context, todo deltas, all []stages) error {
	pause := settle
	for i, d := range todo {
		if len(all[i].clean) == 0 {
			continue
		}
		time.Sleep(pause)
		pause = 0
		if err := s.write(ctx, d.family, all[i].clean); err != nil {
			return d.failed(err)
		}
	}
	return nil
}

func (d delta) failed(err error) error {
	return fmt.Errorf("change of table %s %s: %w", ipText(d.family), tableName, err)
}

// probe tries in a transaction that is not kept whether the kernel has all that
// our rules use.
func (s *socket) probe(f dataplane.Family) error {
	b := s.transaction(f)
	b.table = tableName + "-probe"
	all := delta{family: f, added: true, sets: probeSets(), chains: probeChains(f)}
	for _, o := range all.stages().grow {
		if err := o(b); err != nil {
			return err
		}
	}
	err := s.send(b, false)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("nftables for %s: %w", f, err)
	}
	return unsupported(f, err)
}

// locked runs f with a socket, on one thread from beginning to end.
func locked(f func(*socket) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	return f(s)
}
