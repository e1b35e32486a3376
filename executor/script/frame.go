package script

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"

	"haft/executor"
	"haft/sandbox"
)

// headSize is the size of the length before each frame.
const headSize = 4

// maxCall bounds a frame to the harness. What is larger is refused before
// anything is started.
const maxCall = 32 << 20

// frameSlack is what an answer may hold besides its value.
const frameSlack = 64 << 10

// errFrame is wrapped by every way in which a frame can be wrong.
var errFrame = errors.New("not a frame")

// frame appends payload as a frame to b.
func frame(b, payload []byte) []byte {
	b = slices.Grow(b, headSize+len(payload))
	return append(binary.BigEndian.AppendUint32(b, uint32(len(payload))), payload...)
}

// writeFrame sends payload in one write.
func writeFrame(w io.Writer, payload []byte) error {
	if _, err := w.Write(frame(nil, payload)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// post sends frames that fit into the socket's buffer, without waiting: an error means
// that a part of them may have been sent.
func post(conn *sandbox.Pipe, frames []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("write frames: %w", err)
	}
	n, failed := 0, error(nil)
	err = raw.Write(func(fd uintptr) bool {
		n, failed = syscall.Write(int(fd), frames)
		return !errors.Is(failed, syscall.EINTR)
	})
	switch {
	case err != nil:
		return fmt.Errorf("write frames: %w", err)
	case failed != nil:
		return fmt.Errorf("write frames: %w", failed)
	case n < len(frames):
		return fmt.Errorf("write frames: %w", io.ErrShortWrite)
	}
	return nil
}

// readFrame reads one frame of at most limit bytes. It returns io.EOF at the
// clean end of the stream, and an error that wraps errFrame for a frame that is
// cut short, empty or too large. It reserves no more memory than has arrived.
func readFrame(r io.Reader, limit int64) ([]byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: cut short in its length", errFrame)
		}
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > limit {
		return nil, fmt.Errorf("%w: %d bytes announced, %d is the most", errFrame, n, limit)
	}
	return readN(r, n)
}

// readN reads n bytes, in pieces, so that an announced size costs nothing.
func readN(r io.Reader, n int64) ([]byte, error) {
	const piece = 256 << 10
	b := make([]byte, 0, min(n, piece))
	for int64(len(b)) < n {
		at := len(b)
		b = append(b, make([]byte, min(n-int64(at), piece))...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, fmt.Errorf("%w: cut short", errFrame)
			}
			return nil, err
		}
	}
	return b, nil
}

// sourceFrame is the frame that comes before the call, in Python: what it holds is
// compiled, and not run.
type sourceFrame struct {
	Type   string `json:"type"`
	File   string `json:"file"`
	Source string `json:"source"`
}

// call is the frame that asks for the one call.
type call struct {
	Type     string                     `json:"type"`
	File     string                     `json:"file"`
	Source   string                     `json:"source,omitempty"` // unless it was sent before
	Function string                     `json:"function"`
	Args     json.RawMessage            `json:"args"`
	Pass     []executor.Argument        `json:"pass,omitempty"`
	Inject   map[string]json.RawMessage `json:"inject,omitempty"`
	Env      map[string]string          `json:"env,omitempty"`
	Files    []file                     `json:"files,omitempty"`
	FileArgs []executor.FileArg         `json:"file_args,omitempty"`
	Modules  []string                   `json:"modules,omitempty"` // of Python, that files are
	Scripts  []nodeModule               `json:"scripts,omitempty"` // files that Node.js can load
	Workdir  bool                       `json:"workdir,omitempty"` // the workspace is the working directory
	Path     []string                   `json:"path,omitempty"`    // directories of packages
	Map      json.RawMessage            `json:"map,omitempty"`     // source map
	ESM      bool                       `json:"esm,omitempty"`     // the source is a module
	Limit    int64                      `json:"limit"`             // of the encoded value
	Any      bool                       `json:"any,omitempty"`     // a value that is no data becomes text
	Letta    bool                       `json:"letta,omitempty"`   // names are there that Letta defines
	Reuse    bool                       `json:"reuse,omitempty"`
	Invoke   bool                       `json:"invoke,omitempty"` // it may call other tools
	Wait     bool                       `json:"wait,omitempty"`   // until another frame comes
}

// file is one that is handed in with the call.
type file struct {
	Name string `json:"name"`
	Mode uint32 `json:"mode,omitempty"`
	Data []byte `json:"data"`
	// After names a file inside whose content comes first.
	After string `json:"after,omitempty"`
	// Trust says that Data are certificates, which the process itself trusts.
	Trust bool `json:"trust,omitempty"`
}

// reply is any frame of the harness.
type reply struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
	// Times are the milliseconds of loading, running and encoding.
	Times []float64 `json:"times"`
	// State is the agent_state that the tool has changed.
	State json.RawMessage `json:"state"`

	Kind      string `json:"kind"`
	Error     string `json:"error"` // the class of the exception
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Code      int    `json:"code"`
	Errno     int    `json:"errno"`
	Pointer   string `json:"pointer"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`

	// Tool and Args are a call that the tool makes.
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`

	// Progress and Total are of a report.
	Progress *float64 `json:"progress"`
	Total    *float64 `json:"total"`
}

// The types of frames.
const (
	typeHello    = "hello"
	typeWarm     = "warm"
	typeReady    = "ready"
	typeSource   = "source"
	typeCall     = "call"
	typeResult   = "result"
	typeError    = "error"
	typeRead     = "read"
	typeInvoke   = "invoke"
	typeReturn   = "return"
	typeImport   = "import"
	typeSession  = "session"
	typeProgress = "progress"
)

// readReply reads one frame and decodes it.
func readReply(r io.Reader, limit int64) (*reply, error) {
	b, err := readFrame(r, limit)
	if err != nil {
		return nil, err
	}
	return decodeReply(b)
}

// decodeReply decodes one frame. Bytes that are not JSON, or JSON of another
// shape, are an error that wraps errFrame.
func decodeReply(b []byte) (*reply, error) {
	if m, ok := plainResult(b); ok {
		return m, nil
	}
	var m reply
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	switch m.Type {
	case typeHello, typeReady, typeError, typeRead:
	case typeInvoke:
		if m.Tool == "" || len(m.Args) == 0 || m.Args[0] != '{' {
			return nil, fmt.Errorf("%w: a call without a tool or an object of arguments", errFrame)
		}
	case typeProgress:
		if err := m.checkReport(len(b)); err != nil {
			return nil, err
		}
	case typeResult:
		if m.Value == nil {
			return nil, fmt.Errorf("%w: a result without a value", errFrame)
		}
	default:
		return nil, fmt.Errorf("%w: of an unknown type", errFrame)
	}
	return &m, nil
}

// plainResult reads a result as our harness writes it. What looks otherwise, if only
// by a space, is left to the decoder of JSON.
func plainResult(b []byte) (*reply, bool) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"type":"result","times":[`))
	if !ok {
		return nil, false
	}
	times, rest, ok := bytes.Cut(rest, []byte(`],"value":`))
	if !ok || len(times) > 100 || len(rest) < 2 || rest[len(rest)-1] != '}' {
		return nil, false
	}
	value := rest[: len(rest)-1 : len(rest)-1]
	if !json.Valid(value) || len(bytes.TrimSpace(value)) < len(value) {
		return nil, false
	}
	m := &reply{Type: typeResult, Value: value}
	for part := range bytes.SplitSeq(times, []byte(",")) {
		v, err := strconv.ParseFloat(string(part), 64)
		if err != nil || !json.Valid(part) { // such as NaN
			return nil, false
		}
		m.Times = append(m.Times, v)
	}
	return m, true
}

// expect reads one frame that must be of this type.
func expect(r io.Reader, typ string) error {
	m, err := readReply(r, frameSlack)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", typ, err)
	}
	if m.Type != typ {
		return fmt.Errorf("wait for %s: %w: it is %s", typ, errFrame, m.Type)
	}
	return nil
}

// boot waits until the harness is up, which is sent first if it is not empty.
func boot(conn io.ReadWriter, code []byte) error {
	if len(code) > 0 {
		if _, err := conn.Write(code); err != nil {
			return fmt.Errorf("send the harness: %w", err)
		}
	}
	return expect(conn, typeHello)
}

// warm makes the harness run a dummy call. The harness does not compile it if a source
// that is compiled follows.
func warm(conn io.ReadWriter, compiled bool) error {
	if err := writeFrame(conn, fmt.Appendf(nil, `{"type":"warm","compiled":%t}`, compiled)); err != nil {
		return err
	}
	return expect(conn, typeReady)
}

// load makes the harness import modules. Those that cannot be imported are left out.
func load(conn io.ReadWriter, path, modules []string) error {
	frame, err := json.Marshal(struct {
		Type    string   `json:"type"`
		Path    []string `json:"path"`
		Modules []string `json:"modules"`
	}{typeImport, path, modules})
	if err != nil {
		return fmt.Errorf("encode the imports: %w", err)
	}
	if err := writeFrame(conn, frame); err != nil {
		return err
	}
	return expect(conn, typeReady)
}

// answer reads the one answer and the end of the stream. With reuse the stream
// goes on, and only what has already arrived can be found to be too much.
func answer(r io.Reader, limit int64, reuse bool) (*reply, error) {
	m, err := readReply(r, limit)
	if err != nil {
		return nil, err
	}
	return last(r, m, reuse)
}

// last checks that a frame is the answer, and that nothing follows. A deadline is set when the process has ended;
// who holds the stream open then is not the tool, and on a busy machine it may be a child of ours that has not yet
// run its program.
func last(r io.Reader, m *reply, reuse bool) (*reply, error) {
	if m.Type != typeResult && m.Type != typeError {
		return nil, fmt.Errorf("%w: %s is no answer", errFrame, m.Type)
	}
	if reuse {
		return m, nil
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n > 0 {
		return nil, fmt.Errorf("%w: there is more after the answer", errFrame)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("read the end of the stream: %w", err)
	}
	return m, nil
}
