package app_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A modalServer speaks the gRPC API of Modal that Modal's own SDK speaks to: that of the account, and that of the
// machine in which a sandbox is. Each of its sandboxes is a confined session of a real server of Haft, in another
// process, with real commands.
type modalServer struct {
	pb.UnimplementedModalClientServer

	url          string // host and port
	haft, key    string // where the sandboxes are
	http         *http.Client
	mu           sync.Mutex
	boxes        map[string]*modalBox
	images       []string // the Dockerfiles that were built
	seen         map[string]int
	fault        func(method string) error // answers in the place of the server
	streams      context.Context           // its end cuts what is open
	buildsFailed bool
}

// A modalBox is a sandbox.
type modalBox struct {
	id, inner, token string
	definition       *pb.Sandbox
	created          float64
	tags             map[string]string
	ctx              context.Context // ends with it
	end              context.CancelFunc
	execs            map[string]*modalExec
}

// The tokens of the account.
const (
	modalTokenID, modalTokenSecret = "ak-test", "as-test-secret"
	modalSession                   = "session"
)

// startModalServer starts one, and makes Modal's SDK use it.
func startModalServer(t *testing.T) *modalServer {
	t.Helper()
	s := &modalServer{boxes: map[string]*modalBox{}, seen: map[string]int{}, streams: t.Context(),
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.haft, s.key = startE2BServer(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = ln.Addr().String()
	g := grpc.NewServer(grpc.UnaryInterceptor(s.admitCall), grpc.StreamInterceptor(s.admitStream))
	pb.RegisterModalClientServer(g, s)
	pb.RegisterTaskCommandRouterServer(g, modalRouter{modalServer: s})
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, b := range s.running() {
			s.die(b.id)
		}
	})
	t.Setenv("MODAL_SERVER_URL", "http://"+s.url)
	t.Setenv("MODAL_SANDBOX_CHANNEL_IDLE_TIMEOUT", "0.2")
	return s
}

// admit checks who calls, and answers with a fault.
func (s *modalServer) admit(ctx context.Context, full string) error {
	method := path.Base(full)
	s.mu.Lock()
	s.seen[method]++
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if err := fault(method); err != nil {
			return err
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string { return append(md.Get(name), "")[0] } // the SDK sends some twice
	if strings.Contains(full, "TaskCommandRouter") {
		if !strings.HasPrefix(first("authorization"), "Bearer "+modalJWT()[:10]) {
			return status.Error(codes.Unauthenticated, "no such bearer")
		}
		return nil
	}
	if first("x-modal-token-id") != modalTokenID || first("x-modal-token-secret") != modalTokenSecret ||
		method != "AuthTokenGet" && first("x-modal-auth-token") != modalSession {
		return status.Error(codes.Unauthenticated, "Token missing. Could not authenticate client")
	}
	return nil
}

func (s *modalServer) admitCall(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	next grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *modalServer) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	next grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

// setFault changes what answers in the place of the server.
func (s *modalServer) setFault(fault func(method string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// setStreams makes ctx the one that cuts streams which begin from now on.
func (s *modalServer) setStreams(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = ctx
}

// count returns how many requests there were of a method.
func (s *modalServer) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[method]
}

// running returns the sandboxes that run, the youngest first.
func (s *modalServer) running() []*modalBox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.SortedFunc(maps.Values(s.boxes),
		func(a, b *modalBox) int { return -cmp.Compare(a.created, b.created) })
	return slices.DeleteFunc(list, func(b *modalBox) bool { return b.ctx.Err() != nil })
}

// box returns a sandbox by its id or its task. One that has ended is an error, if it must run.
func (s *modalServer) box(id string, runs bool) (*modalBox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes["sb-"+strings.TrimPrefix(strings.TrimPrefix(id, "ta-"), "sb-")]
	if b == nil || runs && b.ctx.Err() != nil {
		return nil, status.Error(codes.NotFound, "no such sandbox, and this text may hold anything")
	}
	return b, nil
}

// die ends a sandbox.
func (s *modalServer) die(id string) {
	b, err := s.box(id, false)
	if err != nil {
		return
	}
	b.end()
	// The server of Haft ends all sessions in the end.
	_ = s.send(context.Background(), http.MethodDelete, "/e2b/sandboxes/"+b.inner,
		http.Header{"X-Api-Key": {s.key}}, nil, nil)
}

// send sends a request to the server of Haft.
func (s *modalServer) send(ctx context.Context, method, path string, head http.Header, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.haft+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header = head.Clone()
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return status.Error(codes.Unavailable, fmt.Sprintf("%s %s: %d", method, path, res.StatusCode))
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// modalJWT returns a token that says when it ends, as the SDK wants to know.
func modalJWT() string {
	payload, _ := json.Marshal(map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(payload) + ".signature"
}

func (s *modalServer) AuthTokenGet(context.Context, *pb.AuthTokenGetRequest) (*pb.AuthTokenGetResponse, error) {
	return pb.AuthTokenGetResponse_builder{Token: modalSession}.Build(), nil
}

func (s *modalServer) AppGetOrCreate(_ context.Context, r *pb.AppGetOrCreateRequest) (*pb.AppGetOrCreateResponse,
	error) {
	return pb.AppGetOrCreateResponse_builder{AppId: "ap-" + r.GetAppName()}.Build(), nil
}

func (s *modalServer) EnvironmentGetOrCreate(context.Context, *pb.EnvironmentGetOrCreateRequest) (
	*pb.EnvironmentGetOrCreateResponse, error) {
	return pb.EnvironmentGetOrCreateResponse_builder{EnvironmentId: "en-1", Metadata: pb.EnvironmentMetadata_builder{
		Name: "main", Settings: pb.EnvironmentSettings_builder{ImageBuilderVersion: "2025.06"}.Build()}.Build(),
	}.Build(), nil
}

func (s *modalServer) ImageGetOrCreate(_ context.Context, r *pb.ImageGetOrCreateRequest) (
	*pb.ImageGetOrCreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = append(s.images, strings.Join(r.GetImage().GetDockerfileCommands(), "\n"))
	result := pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_SUCCESS}
	if s.buildsFailed {
		result = pb.GenericResult_builder{Status: pb.GenericResult_GENERIC_STATUS_FAILURE,
			Exception: "text of the server"}
	}
	return pb.ImageGetOrCreateResponse_builder{ImageId: "im-1", Result: result.Build()}.Build(), nil
}

func (s *modalServer) SandboxCreateV2(ctx context.Context, r *pb.SandboxCreateV2Request) (*pb.SandboxCreateV2Response,
	error) {
	var out struct {
		ID    string `json:"sandboxID"`
		Token string `json:"envdAccessToken"`
	}
	d := r.GetDefinition()
	in := map[string]any{"templateID": "base", "timeout": min(d.GetTimeoutSecs(), 3600), "secure": true,
		"allow_internet_access": d.GetNetworkAccess().GetNetworkAccessType() == pb.NetworkAccess_OPEN}
	if err := s.send(ctx, http.MethodPost, "/e2b/sandboxes", http.Header{"X-Api-Key": {s.key}}, in, &out); err != nil {
		return nil, err
	}
	b := &modalBox{id: "sb-" + strings.ToUpper(out.ID), inner: out.ID, token: out.Token, definition: d,
		created: float64(time.Now().UnixMicro()) / 1e6, tags: map[string]string{}, execs: map[string]*modalExec{}}
	for _, tag := range r.GetTags() {
		b.tags[tag.GetTagName()] = tag.GetTagValue()
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boxes[b.id] = b
	return pb.SandboxCreateV2Response_builder{SandboxId: b.id, TaskId: "ta" + b.id[2:],
		CommandRouterAccess: pb.CommandRouterAccess_builder{Jwt: modalJWT(), Url: "https://" + s.url}.Build(),
	}.Build(), nil
}

func (s *modalServer) SandboxGetTaskIdV2(_ context.Context, r *pb.SandboxGetTaskIdRequest) (
	*pb.SandboxGetTaskIdResponse, error) {
	b, err := s.box(r.GetSandboxId(), true)
	if err != nil {
		return nil, err
	}
	task := "ta" + b.id[2:]
	return pb.SandboxGetTaskIdResponse_builder{TaskId: &task}.Build(), nil
}

func (s *modalServer) SandboxGetCommandRouterAccess(context.Context, *pb.SandboxGetCommandRouterAccessRequest) (
	*pb.SandboxGetCommandRouterAccessResponse, error) {
	return pb.SandboxGetCommandRouterAccessResponse_builder{Jwt: modalJWT(), Url: "https://" + s.url}.Build(), nil
}

// modalPage is how many sandboxes a page of a list has.
const modalPage = 2

func (s *modalServer) SandboxListV2(_ context.Context, r *pb.SandboxListRequest) (*pb.SandboxListResponse, error) {
	var page []*pb.SandboxInfo
	for _, b := range s.running() {
		match := r.GetBeforeTimestamp() == 0 || b.created < r.GetBeforeTimestamp()
		for _, tag := range r.GetTags() {
			match = match && b.tags[tag.GetTagName()] == tag.GetTagValue()
		}
		if match && len(page) < modalPage {
			page = append(page, pb.SandboxInfo_builder{Id: b.id, CreatedAt: b.created}.Build())
		}
	}
	return pb.SandboxListResponse_builder{Sandboxes: page}.Build(), nil
}

func (s *modalServer) SandboxTagsGetV2(_ context.Context, r *pb.SandboxTagsGetRequest) (*pb.SandboxTagsGetResponse,
	error) {
	b, err := s.box(r.GetSandboxId(), true)
	if err != nil {
		return nil, err
	}
	var tags []*pb.SandboxTag
	for k, v := range b.tags {
		tags = append(tags, pb.SandboxTag_builder{TagName: k, TagValue: v}.Build())
	}
	return pb.SandboxTagsGetResponse_builder{Tags: tags}.Build(), nil
}

func (s *modalServer) SandboxTerminateV2(_ context.Context, r *pb.SandboxTerminateRequest) (
	*pb.SandboxTerminateResponse, error) {
	if _, err := s.box(r.GetSandboxId(), true); err != nil {
		return nil, err
	}
	s.die(r.GetSandboxId())
	return pb.SandboxTerminateResponse_builder{}.Build(), nil
}

func (s *modalServer) SandboxWaitV2(_ context.Context, r *pb.SandboxWaitRequest) (*pb.SandboxWaitResponse, error) {
	b, err := s.box(r.GetSandboxId(), false)
	if err != nil {
		return nil, err
	}
	if b.ctx.Err() == nil {
		return pb.SandboxWaitResponse_builder{}.Build(), nil
	}
	return pb.SandboxWaitResponse_builder{Result: pb.GenericResult_builder{
		Status: pb.GenericResult_GENERIC_STATUS_TERMINATED}.Build()}.Build(), nil
}
