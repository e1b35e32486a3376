package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"haft"
	"haft/app"
	"haft/executor/builtin"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// testServer is a whole server on loopback, and somebody who calls it.
type testServer struct {
	sys    *app.Server
	dir    string
	url    string
	client *http.Client
	served chan error
}

// openServer opens a server that keeps everything, as `haft serve` does.
func (b *bench) openServer(ctx context.Context) (_ *testServer, err error) {
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for state: %w", err)
	}
	d := &testServer{dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	defer func() {
		if err != nil {
			d.close(ctx)
		}
	}()
	d.sys, err = app.OpenServer(ctx, app.ServerConfig{ServiceConfig: app.ServiceConfig{
		Config: b.cfg.system(), Data: dir, Builtins: addNoop,
	}})
	if err != nil {
		return nil, err
	}
	if _, err := d.sys.PutTool(ctx, tenant("local"),
		haft.Draft{Name: "add", Kind: haft.KindPython, Source: source, Function: "add"}); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d.url, d.served = "http://"+ln.Addr().String(), make(chan error, 1)
	go func() { d.served <- d.sys.HTTP.Serve(ln) }()
	return d, nil
}

// addNoop adds a tool that does nothing.
func addNoop(set *builtin.Set) error {
	return builtin.Add(set, builtin.Def{Name: "noop", Description: "Do nothing."},
		func(context.Context, builtin.Call, nothing) (nothing, error) { return nothing{}, nil })
}

// close ends and removes everything.
func (d *testServer) close(ctx context.Context) {
	d.client.CloseIdleConnections()
	if d.served != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		d.sys.HTTP.Shutdown(end) //nolint:errcheck // nothing of it is kept
		<-d.served
	}
	if d.sys != nil {
		d.sys.Close() //nolint:errcheck // nothing of it is kept
	}
	os.RemoveAll(d.dir)
}

// call posts a call and insists on its success.
func (d *testServer) call(ctx context.Context, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/calls", bytes.NewReader([]byte(body)))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+d.sys.Auth.First.Reveal())
	req.Header.Set("Content-Type", "application/json")
	res, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("call over HTTP: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var out haft.Result
	if err := json.Unmarshal(raw, &out); err != nil || out.Status != haft.StatusSuccess {
		return fmt.Errorf("the answer is %s with status %q", res.Status, out.Status)
	}
	return nil
}

// http measures calls that come over HTTP, with the caller on the same machine.
func (b *bench) http(ctx context.Context) error {
	b.cfg.Progress("the same over HTTP")
	d, err := b.openServer(ctx)
	if err != nil {
		return err
	}
	defer d.close(ctx)
	samples, err := Interleave(b.cfg.Rounds, []Way{
		{"haft: confined call over HTTP, recorded",
			func() error { return d.call(ctx, `{"tool": "add", "args": `+jobArgs+`}`) }},
		{"bare", b.bare(ctx)},
	})
	if err != nil {
		return err
	}
	b.ratio("confined Python call over HTTP, recorded, p50", samples[0].Quantile(.5), samples[1].Quantile(.5), 1./8,
		1./10)
	b.report.Samples = append(b.report.Samples, samples[0])
	const callers = 64
	rate, err := b.slice(ctx, callers, func() error { return d.call(ctx, `{"tool": "noop", "args": {}}`) })
	if err != nil {
		return err
	}
	b.add(Row{What: fmt.Sprintf("built-in calls per second over HTTP, %d callers on this machine (thousands)", callers),
		Ours: fmt.Sprintf("%.0f/s", rate), Ratio: rate / 1000, Must: 3, Aim: 6, AtLeast: true})
	return nil
}
