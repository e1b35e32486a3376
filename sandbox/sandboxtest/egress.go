package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
)

// RunEgress runs the whole suite once more, with egress in every
// run that has no network: it must not weaken anything else. It is [RunForked]
// with that, too, if forks is set.
func RunEgress(t *testing.T, open func(t *testing.T) sandbox.Provider, forks bool) {
	t.Helper()
	if forks {
		runForked(t, open, func(p sandbox.Provider) sandbox.Provider { return withEgress{p} })
		return
	}
	run(t, func(t *testing.T) sandbox.Provider { return withEgress{open(t)} }, Cases())
}

// withEgress gives egress to runs that have no network.
type withEgress struct{ sandbox.Provider }

// Run implements [sandbox.Provider].
func (o withEgress) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if spec.Network == sandbox.NetworkNone && spec.ServeEgress == nil {
		(&echo{}).egress(&spec)
	}
	return o.Provider.Run(ctx, spec)
}

// An echo is egress that sends a word and then repeats what it receives.
type echo struct {
	word        string
	total, open atomic.Int64
	peak        atomic.Int64
}

// egress makes spec lead to e.
func (e *echo) egress(spec *sandbox.Spec) {
	spec.Network, spec.ServeEgress = sandbox.NetworkEgress, e.serve
}

// serve serves one connection, until it or the run ends.
func (e *echo) serve(ctx context.Context, conn net.Conn) {
	e.total.Add(1)
	for n := e.open.Add(1); ; {
		if old := e.peak.Load(); old >= n || e.peak.CompareAndSwap(old, n) {
			break
		}
	}
	defer e.open.Add(-1)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, e.word+"\n"); err == nil {
		// The program reports errors. The plain interfaces prevent splicing, for which
		// the runtime keeps pipes: these would be counted as leaked descriptors.
		_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
	}
}

// way is the beginning of a program that uses the egress.
const way = dial + `
import threading
O = ('127.0.0.1', ` + "PORT" + `)
def out():
    s = socket.create_connection(O, 20); s.settimeout(20); f = s.makefile('rb')
    return s, f, f.readline().decode().strip()
`

// egressProgram is a program that uses the egress.
func egressProgram(source string) Program {
	return py(strings.Replace(way, "PORT", strconv.Itoa(sandbox.EgressPort), 1) + source)
}

// egressCases are about a network of one address.
func egressCases() []Case {
	need := controls(haft.ControlNetNS)
	do := func(name, story string, f func(context.Context, *Bench) error) Case {
		return Case{Name: name, Group: Networking, Needs: need, Story: story, Do: f}
	}
	alone := func(c Case) Case { c.Alone = true; return c }
	return []Case{
		do("egress_carries_what_is_sent", "What a program sends to the egress arrives, and what comes back, in many "+
			"connections and in large ones.", egressCarries),
		{
			Name: "egress_is_the_only_address", Group: Networking, Needs: need, Spec: (&echo{}).egress,
			Story: "A program that ignores the egress reaches nothing: no other port and address, no UDP, no raw " +
				"packets, no IPv6, no sockets of the host.",
			Program: egressProgram(`
for p in (1, 22, 53, 80, 443, 7717, 7719, p4): attempt('port%d' % p, tcp('127.0.0.1', p))
attempt('host', tcp(h4, p4)); attempt('lan', tcp(hl, pl)); attempt('two', tcp('127.0.0.2', O[1])); attempt('any', tcp('0.0.0.0', p4))
attempt('metadata', tcp('169.254.169.254', 80)); attempt('internet', tcp('1.1.1.1', 443)); attempt('same', tcp('1.1.1.1', O[1]))
attempt('six', tcp('::1', p6, socket.AF_INET6)); attempt('sixout', tcp('::1', O[1], socket.AF_INET6)); attempt('mapped', tcp('::ffff:127.0.0.1', p4, socket.AF_INET6))
attempt('sixnet', tcp('2606:4700:4700::1111', 443, socket.AF_INET6))
attempt('udp', udp(hu, pu)); attempt('udpout', udp(*O)); attempt('dns', udp('8.8.8.8', 53)); attempt('local', udp('127.0.0.53', 53)); attempt('mdns', udp('224.0.0.251', 5353))
def raw(kind, proto):
    def go():
        s = socket.socket(socket.AF_INET, kind, proto); s.sendto(b'\x08\0\xf7\xff\0\0\0\0', ('1.1.1.1', 0))
    return go
attempt('raw', raw(socket.SOCK_RAW, socket.IPPROTO_ICMP)); attempt('ping', raw(socket.SOCK_DGRAM, socket.IPPROTO_ICMP)); attempt('tcp', raw(socket.SOCK_RAW, socket.IPPROTO_TCP))
def sctp():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132); s.connect((h4, p4))
attempt('sctp', sctp)
def fast():
    s = socket.socket()
    try: s.sendto(b'x', 0x20000000, (h4, p4))
    except BlockingIOError: # the answer comes later
        import select
        select.select([], [s], [], 2)
        failed(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
attempt('fastopen', fast)
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect('\0' + E['ABSTRACT'][1:]); return s.recv(64)
attempt('abstract', abstract)`),
			Check: refused(append([]string{"EOPNOTSUPP"}, deniedRoute...), "host", "lan", "same", "six", "udp", "dns",
				"raw", "fastopen", "abstract"),
		}, {
			Name: "names_fail_at_once_with_egress", Group: Networking, Needs: need, Spec: (&echo{}).egress,
			Timed: true,
			Story: "A program that asks for a name is told at once that there is none, and the only names are its own.",
			Program: egressProgram(`
begun = time.time()
for n in ('example.com', 'localhost.localdomain', 'metadata.google.internal'):
    try: say(n, socket.getaddrinfo(n, 80))
    except socket.gaierror: pass
say('quick' if time.time() - begun < 5 else 'slow')
say(socket.getaddrinfo('localhost', 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
try: say(open('/etc/resolv.conf').read().strip())
except OSError: say('')
say(sorted({l.split()[0] for l in open('/etc/hosts') if l.strip()}))`),
			Check: prints("quick\n127.0.0.1\n\n['127.0.0.1']\n"),
		},
		do("egress_is_not_shared", "Of two sandboxes at once, each reaches its own egress only, and neither can "+
			"take the place of one.", egressApart),
		do("egress_ends_with_the_run", "When Ended is called nobody is served any more, whatever the program left "+
			"behind: connections, threads, daemons.", egressEnds),
		do("egress_ends_with_finish", "A caller that has what it wants does not wait for connections that are open.",
			egressFinish),
		do("egress_that_is_deaf_ends_too",
			"A connection that is served by somebody who only reads, or only waits, ends with the run.", egressDeaf),
		alone(do("egress_is_not_flooded", "Ten thousand connections at once are not let in, and do not hold up the "+
			"egress of another.", egressFlood)),
		{
			Name: "egress_needs_a_network_of_its_own", Group: Networking, Do: egressRefused,
			Story: "Where a program could go around the egress, a run that asks for one is refused.",
		},
	}
}

func egressCarries(ctx context.Context, b *Bench) error {
	e := &echo{word: "word"}
	o := b.Run(ctx, egressProgram(`
for _ in range(50):
    s, f, w = out(); s.sendall(b'line\n'); assert (w, f.readline()) == ('word', b'line\n'); s.close()
def large():
    s, f, w = out()
    threading.Thread(target=lambda: (s.sendall(bytes(4 << 20)), s.shutdown(socket.SHUT_WR))).start()
    assert len(f.read()) == 4 << 20
all = [threading.Thread(target=large) for _ in range(4)]
for t in all: t.start()
for t in all: t.join()
say('done')`), e.egress)
	if n := e.total.Load(); n != 54 && o.Err == nil {
		return fmt.Errorf("%d connections came, want 54: %v", n, o)
	}
	return because(prints("done\n")(o), o)
}

// because adds an outcome to an error.
func because(err error, o Outcome) error {
	if err != nil {
		return fmt.Errorf("%w\n\t%v", err, o)
	}
	return nil
}

func egressApart(ctx context.Context, b *Bench) error {
	const n = 3
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			e := &echo{word: fmt.Sprintf("egress-%d", i)}
			o := b.Run(ctx, egressProgram(`
words = set()
for _ in range(100):
    s, f, w = out(); words.add(w); s.close()
say(sorted(words))
def steal(option):
    def go():
        s = socket.socket()
        if option: s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind(O); s.listen()
    return go
held = out()
for o in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    attempt('steal', steal(o))`), e.egress)
			err := exits(0)(o)
			said := strings.Split(o.Stdout, "\n")
			if err == nil && (said[0] != fmt.Sprintf("['%s']", e.word) || strings.Contains(o.Stdout, "done") ||
				e.total.Load() != 101) {
				err = fmt.Errorf("it met another, or %d connections came", e.total.Load())
			}
			errs[i] = because(err, o)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func egressEnds(ctx context.Context, b *Bench) error {
	e := &echo{}
	var ended, atEnd atomic.Int64
	var open atomic.Int64
	live, err := b.Start(ctx, egressProgram(`
def busy():
    while True:
        try:
            s, f, w = out(); s.sendall(bytes(65536)); held.append(s)
        except OSError: pass
held = [out() for _ in range(8)]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: busy()
    os._exit(0)
threading.Thread(target=busy, daemon=True).start()
time.sleep(0.1)
sys.stdout.flush(); os._exit(3)`), func(s *sandbox.Spec) {
		e.egress(s)
		s.Ended = func(sandbox.Exit) {
			ended.Add(1)
			open.Store(e.open.Load())
			atEnd.Store(e.total.Load())
		}
	})
	if err != nil {
		return err
	}
	o := live.Wait()
	switch {
	case o.Err != nil || o.Exit.Code != 3 || e.total.Load() < 8:
		err = fmt.Errorf("after %d connections it ended otherwise", e.total.Load())
	case ended.Load() != 1 || open.Load() != 0:
		err = fmt.Errorf("%d connections were served when Ended was called", open.Load())
	case e.total.Load() != atEnd.Load() || e.open.Load() != 0:
		err = fmt.Errorf("%d connections came after the end", e.total.Load()-atEnd.Load())
	}
	return errors.Join(because(err, o), left(live.token))
}

func egressFinish(ctx context.Context, b *Bench) error {
	e, finish := &echo{}, make(chan struct{})
	var open atomic.Int64
	open.Store(-1)
	live, err := b.Start(ctx, egressProgram(`
held = [out() for _ in range(16)]
tell('ready')
while True: time.sleep(1)`), func(s *sandbox.Spec) {
		e.egress(s)
		s.Finish, s.Ended = finish, func(sandbox.Exit) { open.Store(e.open.Load()) }
	})
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	close(finish)
	o := live.Wait()
	if err == nil && (open.Load() != 0 || o.Exit.Cause != sandbox.CauseFinished) {
		err = fmt.Errorf("%d connections were served when Ended was called", open.Load())
	}
	return errors.Join(because(err, o), left(live.token))
}

func egressDeaf(ctx context.Context, b *Bench) error {
	for name, serve := range map[string]func(context.Context, net.Conn){
		"reading": func(_ context.Context, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"writing": func(_ context.Context, conn net.Conn) {
			for err := error(nil); err == nil; _, err = conn.Write(make([]byte, 1<<16)) {
			}
		},
		"waiting": func(ctx context.Context, _ net.Conn) { <-ctx.Done() },
	} {
		var open atomic.Int64
		o := b.Run(ctx, egressProgram(`
a = [socket.create_connection(O) for _ in range(4)]
time.sleep(0.05)
say('done'); sys.stdout.flush(); os._exit(0)`), func(s *sandbox.Spec) {
			s.Network = sandbox.NetworkEgress
			s.ServeEgress = func(ctx context.Context, conn net.Conn) {
				open.Add(1)
				defer open.Add(-1)
				serve(ctx, conn)
			}
		})
		if err := prints("done\n")(o); err != nil || open.Load() != 0 {
			return because(fmt.Errorf("%s: %d are served after the end: %w", name, open.Load(), err), o)
		}
	}
	return nil
}

func egressFlood(ctx context.Context, b *Bench) error {
	e := &echo{}
	// Without a cgroup memory that processes share counts for each: 21 Pythons are 300 MB.
	more := func(s *sandbox.Spec) { s.Limits.OpenFiles, s.Limits.Memory = 1024, 1<<30; e.egress(s) }
	live, err := b.Start(ctx, egressProgram(`
import resource
most = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 16)
r, w = os.pipe()
for _ in range(20):
    if os.fork(): continue
    held = []
    for _ in range(most):
        s = socket.socket(); s.setblocking(False); held.append(s)
        try: s.connect(O)
        except OSError as x:
            if x.errno not in (errno.EINPROGRESS, errno.EAGAIN, errno.EADDRNOTAVAIL): say('connect', x); break
    os.write(w, b'.'); time.sleep(60)
for _ in range(20): os.read(r, 1)
tell('flooded'); line()
say('done'); sys.stdout.flush(); os._exit(0)`), more)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	other := &echo{word: "other"}
	begun := time.Now()
	second := b.Run(ctx, egressProgram(`say(out()[2])`), other.egress)
	took, total := time.Since(begun), e.total.Load() // while all connections are open
	err = errors.Join(because(prints("other\n")(second), second), live.Say("go"))
	o := live.Wait()
	switch {
	case err != nil:
	case e.peak.Load() > sandbox.EgressConns:
		err = fmt.Errorf("%d connections were served at once, %d is the most", e.peak.Load(), sandbox.EgressConns)
	case total > sandbox.EgressConns:
		err = fmt.Errorf("%d connections were let in while nobody left", total)
	case took > 10*time.Second:
		err = fmt.Errorf("another waited for %v", took)
	default:
		err = prints("done\n")(o)
	}
	return errors.Join(because(err, o), left(live.token))
}

func egressRefused(ctx context.Context, b *Bench) error {
	e := &echo{word: "hello"}
	o := b.Run(ctx, egressProgram(`say(out()[2])`), e.egress)
	if b.iso.Has(haft.ControlNetNS) {
		return because(prints("hello\n")(o), o)
	}
	if haft.CodeOf(o.Err) != haft.CodeDenied || o.Stdout != "" || e.total.Load() != 0 {
		return fmt.Errorf("it was not refused with code %q: %v", haft.CodeDenied, o)
	}
	return nil
}
