package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"haft"
)

// served is a haft server in a process of its own, as people run it. What it takes of the processors can be told from
// what its callers take, who are in this process.
type served struct {
	cmd      *exec.Cmd
	dir      string
	url, key string
	client   *http.Client
}

// serve starts Config.Self as a server with the job as a tool.
func (b *bench) serve(ctx context.Context) (_ *served, err error) {
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for state: %w", err)
	}
	s := &served{dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.cmd = exec.CommandContext(ctx, b.cfg.Self, "serve", "--addr", "127.0.0.1:0", "--data", dir, "--log-level",
		"error",
		"--allow-reduced="+strconv.FormatBool(b.cfg.AllowReduced))
	s.cmd.Stderr = os.Stderr
	// The server takes the first python3 of $PATH: the one that the other rows are about.
	s.cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(b.python)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	s.cmd.WaitDelay = 20 * time.Second
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	if err = s.cmd.Start(); err != nil {
		s.cmd = nil
		return nil, fmt.Errorf("start a server: %w", err)
	}
	for lines := bufio.NewScanner(out); s.url == "" && lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on http"); ok {
			s.url = "http" + at
		}
	}
	if s.url == "" {
		return nil, fmt.Errorf("start a server: it says no address")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the server ends
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the key of the server: %w", err)
	}
	s.key = strings.TrimSpace(string(key))
	_, err = s.send(ctx, "/v1/tools", haft.Draft{Name: "add", Kind: haft.KindPython, Source: source, Function: "add"})
	return s, err
}

// close ends the server and removes its state.
func (s *served) close() {
	s.client.CloseIdleConnections()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(os.Interrupt) // it has ended already, or ends now
		_ = s.cmd.Wait()                       // nothing of it is kept
	}
	os.RemoveAll(s.dir)
}

// send posts what as JSON to a path of the API.
func (s *served) send(ctx context.Context, path string, what any) ([]byte, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return nil, fmt.Errorf("encode a request: %w", err)
	}
	raw, _, err := s.post(ctx, path, "", body)
	return raw, err
}

// remove sends DELETE to a path of the API.
func (s *served) remove(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.url+path, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	_, _, err = s.do(req)
	return err
}

// post posts a body, within a session of MCP if there is one, and returns the answer and the session that it names.
func (s *served) post(ctx context.Context, path, session string, body []byte) ([]byte, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, "", fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	return s.do(req)
}

// do sends a request with the key of the server, and returns the answer and the session of MCP that it names.
func (s *served) do(req *http.Request) ([]byte, string, error) {
	req.Header.Set("Authorization", "Bearer "+s.key)
	res, err := s.client.Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("send to the server: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && res.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s answers %s: %.500s", req.URL.Path, res.Status, raw)
	}
	return raw, res.Header.Get("Mcp-Session-Id"), err
}

// call makes a call over HTTP and returns its value.
func (s *served) call(ctx context.Context, tool string, args any) (*haft.Result, error) {
	raw, err := s.send(ctx, "/v1/calls", map[string]any{"tool": tool, "args": args})
	if err != nil {
		return nil, err
	}
	var res haft.Result
	if err := json.Unmarshal(raw, &res); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if res.Status != haft.StatusSuccess {
		return nil, fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
	}
	return &res, nil
}

// add calls the job over HTTP.
func (s *served) add(ctx context.Context) error {
	return checkJob(s.call(ctx, "add", json.RawMessage(jobArgs)))
}

// openMCP opens a session of MCP.
func (s *served) openMCP(ctx context.Context) (string, error) {
	_, session, err := s.post(ctx, "/mcp", "", []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"haft-bench","version":"1"}}}`))
	if err != nil {
		return "", err
	}
	_, _, err = s.post(ctx, "/mcp", session, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return session, err
}

// addMCP calls the job over MCP, for one of the callers who share a session.
func (s *served) addMCP(ctx context.Context, session string, caller int) error {
	raw, _, err := s.post(ctx, "/mcp", session, fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":%s}}`, caller+2, jobArgs))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(raw) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var m struct {
			Result struct {
				Content []struct{ Text string }
			}
		}
		if json.Unmarshal(data, &m) == nil && len(m.Result.Content) > 0 && m.Result.Content[0].Text == jobValue {
			return nil
		}
	}
	return fmt.Errorf("the answer over MCP is %.200q", raw)
}

// processor is how long the server itself has used processors, without what it started.
func (s *served) processor() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0 // and the row shows nonsense, which is seen
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const user, system = 11, 12 // of those that follow the name
	return ticks(fields[user]) + ticks(fields[system])
}

// ticks reads a number of USER_HZ, which is 100 everywhere.
func ticks(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * 10 * time.Millisecond
}

// machineBusy is how long the processors of this machine have been busy, with whatever.
func machineBusy() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	var sum time.Duration
	for i, f := range fields {
		const idle, waiting, steal, guest = 4, 5, 8, 9 // guest is in user already
		if i == 0 || i == idle || i == waiting || i == steal || i >= guest {
			continue
		}
		sum += ticks(f)
	}
	return sum
}
