package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

// fetching is the job of the row about the proxy: the same source runs in the
// sandbox and bare.
const fetching = `
import http.client, os, time, urllib.request

def fetch(url: str, times: int) -> list[float]:
    """Fetch a page again and again.

    Args:
        url: Where.
        times: How often.
    """
    out = []
    for i in range(times + 3):
        start = time.perf_counter()
        with urllib.request.urlopen(url, timeout=20) as r:
            r.read()
        out.append(time.perf_counter() - start)
    return out[3:]
`

// network measures what the proxy adds to an allowed request: each with a
// connection of its own, as most tools make them.
func (b *bench) network(ctx context.Context) error {
	b.cfg.Progress("requests through the proxy, and without a sandbox")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok") // who asks notices
		})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		srv.Close() //nolint:errcheck // nothing of it is kept
		<-served
	}()
	tool, err := b.tool(ctx, "fetch", fetching)
	if err != nil {
		return err
	}
	const slices = 4
	per := max(b.cfg.Rounds/slices, 1)
	through, direct := Sample{Name: "haft: request through the proxy"}, Sample{Name: "request without a sandbox"}
	for range slices {
		if err := b.fetchInside(ctx, tool, l.Addr().String(), per, &through); err != nil {
			return err
		}
		if err := b.fetchBare(ctx, l.Addr().String(), per, &direct); err != nil {
			return err
		}
	}
	added := through.Quantile(.5) - direct.Quantile(.5)
	b.add(Row{
		What: "added to an allowed request by the proxy, p50, of 1 ms", Ours: label(ms(through.Quantile(.5))),
		Theirs: label(ms(direct.Quantile(.5))) + " without a sandbox",
		Ratio:  max(float64(added)/float64(time.Millisecond), 0.001), Must: 1, Aim: 0.5,
	})
	return nil
}

// seconds adds times in seconds.
func (s *Sample) seconds(raw []byte) error {
	var list []float64
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read the times: %w", err)
	}
	for _, t := range list {
		s.Times = append(s.Times, time.Duration(t*float64(time.Second)))
	}
	return nil
}

// fetchInside fetches in the sandbox.
func (b *bench) fetchInside(ctx context.Context, tool *app.Tool, addr string, times int, to *Sample) error {
	args := fmt.Sprintf(`{"url": "http://%s/", "times": %d}`, addr, times)
	res, err := b.app.Call(ctx, tool, app.Run{Org: "bench", Args: []byte(args), Hosts: []string{addr},
		Ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		return err
	}
	if res.Status != haft.StatusSuccess {
		return fmt.Errorf("the call ended with %s: %v %v", res.Status, res.Error, res.Notices)
	}
	return to.seconds(res.Value)
}

// fetchBare fetches with the interpreter alone.
func (b *bench) fetchBare(ctx context.Context, addr string, times int, to *Sample) error {
	code := fetching + "\nimport json, sys\nprint(json.dumps(fetch(sys.argv[1], int(sys.argv[2]))))\n"
	cmd := exec.CommandContext(ctx, b.python, "-I", "-c", code, "http://"+addr+"/", strconv.Itoa(times))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	raw, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("fetch with bare python3: %w", err)
	}
	return to.seconds(raw)
}

// processorTime is how long this process has used processors: what one of them can
// do in a second does not depend on who else wants it.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // and the row shows nonsense, which is seen
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// redaction measures how fast output is searched for 1,000 values and for what
// looks like a key.
func (b *bench) redaction(ctx context.Context) error {
	b.cfg.Progress("taking 1,000 secrets out of output")
	rng := rand.New(rand.NewPCG(1, 2))
	var values []secret.Named
	for i := range 1000 {
		values = append(values, secret.Named{Name: fmt.Sprint("V", i),
			Value: secret.New(fmt.Sprintf("%016x-%x", rng.Uint64(), rng.Uint64()))})
	}
	var text strings.Builder
	for text.Len() < 1<<20 {
		fmt.Fprintf(&text,
			`{"time":"2026-11-15T06:%02d:%02dZ","level":"INFO","msg":"handled \"it\"","path":"/v1/items/%d?q=a%%20b"}`+
				"\n", rng.IntN(60), rng.IntN(60), rng.IntN(1e5))
	}
	raw := []byte(text.String())
	r := secret.NewRedactor(secret.Config{Values: values, Formats: true})
	n, start, before := 0, time.Now(), processorTime()
	for n == 0 || time.Since(start) < b.cfg.Slice/3 && ctx.Err() == nil {
		s := r.NewStream(func(p []byte) { n += len(p) })
		for chunk := range slices.Chunk(raw, 32<<10) {
			if _, err := s.Write(chunk); err != nil {
				return fmt.Errorf("redact: %w", err)
			}
		}
		if err := s.Close(); err != nil {
			return fmt.Errorf("redact: %w", err)
		}
	}
	speed := float64(n) / 1e6 / (processorTime() - before).Seconds()
	b.add(Row{
		What: "output searched for 1,000 secrets in every encoding, per second of one processor",
		Ours: fmt.Sprintf("%.0f MB/s", speed), Theirs: "100 MB/s", Ratio: speed / 100, Must: 1, Aim: 2, AtLeast: true,
	})
	return nil
}
