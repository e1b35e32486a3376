package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"haft"
	"haft/sandbox/internal/rented"
)

// The bounds of an answer, and the time for one.
const (
	maxAnswer   = 4 << 20
	answerTime  = 30 * time.Second
	createTime  = 90 * time.Second
	maxSandbox  = 1000 // listed
	maxWaitTime = time.Hour
)

// An Info describes a machine that Haft has made.
type Info = rented.Info

// The metadata of machines.
const (
	metaHaft  = "haft"
	metaOwner = "haft.owner"
	metaState = "haft.state" // the digest of tenant and configuration
)

// sandboxAnswer is a sandbox for who works in it.
type sandboxAnswer struct {
	ID     string `json:"sandboxID"`
	Token  string `json:"envdAccessToken"`
	Domain string `json:"domain"`
}

// A server speaks to the API. It implements [rented.Renter].
type server struct {
	cfg  Config
	http *http.Client
}

// newServer makes the client. It follows no redirects: they would get the key.
func newServer(cfg Config) *server {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.ResponseHeaderTimeout = 32, createTime
	return &server{cfg: cfg, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// control makes a request to the control API.
func (a *server) control(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	limit := answerTime
	if method == http.MethodPost {
		limit = createTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return a.roundTrip(ctx, method, a.cfg.APIURL+path, http.Header{"X-Api-Key": {a.cfg.Key}}, in, out)
}

// roundTrip sends JSON, or bytes, and reads JSON.
func (a *server) roundTrip(ctx context.Context, method, address string, head http.Header, in, out any) (http.Header,
	error) {
	var body io.Reader
	kind := "application/json"
	switch v := in.(type) {
	case nil:
	case io.Reader:
		body, kind = v, "application/octet-stream"
	default:
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode a request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	req.Header = head
	if in != nil {
		req.Header.Set("Content-Type", kind)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	defer res.Body.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case res.StatusCode/100 != 2:
		return nil, statusError(res)
	case err != nil:
		return nil, unreachable(err)
	case len(raw) > maxAnswer:
		return nil, broken("an answer of E2B is too large")
	case out != nil && json.Unmarshal(raw, out) != nil:
		return nil, broken("an answer of E2B is not the JSON that it should be")
	}
	return res.Header, nil
}

// unreachable is the error of a request that got no whole answer.
func unreachable(err error) error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: err,
		Message: "E2B cannot be reached, or did not answer in time"}
}

// broken is the error of an answer that makes no sense.
func broken(message string) error { return &haft.Error{Code: haft.CodeUnavailable, Message: message} }

// statusError says what an answer that is no success means. Texts of the server are not passed on.
func statusError(res *http.Response) error {
	e := &haft.Error{Code: haft.CodeUnavailable, Err: fmt.Errorf("status %d", res.StatusCode)}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Message = "E2B refuses the key: the operator checks E2B_API_KEY"
	case http.StatusNotFound:
		e.Message, e.Err = "E2B has no such sandbox or template: the operator checks HAFT_E2B_TEMPLATE", rented.ErrGone
	case http.StatusConflict:
		e.Message, e.Err = "E2B says that the sandbox is not in a state to be used", rented.ErrGone
	case http.StatusBadGateway:
		e.Message, e.Err = "the sandbox of E2B has ended", rented.ErrGone
	case http.StatusTooManyRequests:
		e.Code, e.Message = haft.CodeRateLimited, "E2B takes no more requests, or gives no more sandboxes, for now"
		e.RetryAfter = haft.Millis(time.Second)
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
			e.RetryAfter = haft.Millis(min(time.Duration(min(n, 3600))*time.Second, maxWaitTime))
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		e.Message = "E2B does not take the request of Haft"
	case http.StatusInsufficientStorage:
		e.Message = "the sandbox of E2B has no space left"
	default:
		e.Message = "E2B is not available: status " + strconv.Itoa(res.StatusCode)
	}
	return e
}

// Create implements [rented.Renter].
func (a *server) Create(ctx context.Context, want rented.Want) (rented.Machine, error) {
	in := map[string]any{"templateID": a.cfg.Template, "timeout": seconds(a.cfg.Life),
		"metadata":              map[string]string{metaHaft: "1", metaOwner: a.cfg.Owner, metaState: want.State},
		"allow_internet_access": want.Internet, "secure": true}
	var out sandboxAnswer
	if _, err := a.control(ctx, http.MethodPost, "/sandboxes", in, &out); err != nil {
		return nil, err
	}
	return a.machine(out)
}

// Reuse implements [rented.Renter].
func (a *server) Reuse(ctx context.Context, i rented.Info) (rented.Machine, error) {
	var out sandboxAnswer
	_, err := a.control(ctx, http.MethodPost, "/sandboxes/"+i.ID+"/connect", a.life(), &out)
	if err != nil {
		return nil, err
	}
	if out.ID != i.ID {
		return nil, broken("E2B gave another sandbox than the one it was asked for")
	}
	m, err := a.machine(out)
	if err != nil {
		return nil, err
	}
	if n, err := m.processes(ctx); err != nil || n > 0 {
		return nil, errors.Join(rented.ErrGone, err)
	}
	return m, nil
}

// machine checks an answer and says where the machine is.
func (a *server) machine(out sandboxAnswer) (*machine, error) {
	m := &machine{server: a, id: out.ID, token: out.Token, base: a.cfg.SandboxURL, ends: time.Now().Add(a.cfg.Life)}
	domain := cmp.Or(out.Domain, a.cfg.Domain)
	if !isID(out.ID) || !isHost(domain) {
		return nil, broken("E2B gave a sandbox whose name or domain is none")
	}
	if m.base == "" {
		m.base = "https://" + envdPort + "-" + m.id + "." + domain
	}
	return m, nil
}

// seconds is a time as E2B has it.
func seconds(d time.Duration) int { return max(1, int(d/time.Second)) }

// life says how long a machine lives from now on.
func (a *server) life() map[string]any { return map[string]any{"timeout": seconds(a.cfg.Life)} }

// End implements [rented.Renter].
func (a *server) End(ctx context.Context, id string) error {
	if !isID(id) {
		return invalid("this is not the name of a sandbox")
	}
	_, err := a.control(ctx, http.MethodDelete, "/sandboxes/"+id, nil, nil)
	if errors.Is(err, rented.ErrGone) {
		return nil
	}
	return err
}

// List implements [rented.Renter].
func (a *server) List(ctx context.Context, owner, state string) ([]rented.Info, error) {
	filter := url.Values{metaHaft: {"1"}}
	for k, v := range map[string]string{metaOwner: owner, metaState: state} {
		if v != "" {
			filter.Set(k, v)
		}
	}
	var all []rented.Info
	for next := ""; len(all) < maxSandbox; {
		q := url.Values{"metadata": {filter.Encode()}, "state": {"running"}, "limit": {"100"}}
		if next != "" {
			q.Set("nextToken", next)
		}
		var page []struct {
			ID       string            `json:"sandboxID"`
			Template string            `json:"templateID"`
			Started  time.Time         `json:"startedAt"`
			Ends     time.Time         `json:"endAt"`
			Metadata map[string]string `json:"metadata"`
		}
		head, err := a.control(ctx, http.MethodGet, "/v2/sandboxes?"+q.Encode(), nil, &page)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			mine := isID(s.ID) // the server may not filter
			for k := range filter {
				mine = mine && s.Metadata[k] == filter.Get(k)
			}
			if mine {
				all = append(all, rented.Info{ID: s.ID, Template: s.Template, Owner: s.Metadata[metaOwner],
					State: s.Metadata[metaState], Started: s.Started, Ends: s.Ends})
			}
		}
		if next = head.Get("X-Next-Token"); next == "" || len(page) == 0 {
			break
		}
	}
	return all, nil
}
