package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
)

// A Sink is a place outside of the database that gets a copy of every checkpoint, one
// [audit.CheckpointLine] on each line. It may get one twice.
type Sink interface {
	// Name names the sink in a file of this directory, without secrets.
	Name() string
	// Known reads what the sink has, or only the end of it; it yields nothing if it
	// cannot be asked.
	Known(all bool, yield func(audit.Checkpoint)) error
	// Send returns when the sink has kept the lines.
	Send(ctx context.Context, lines []byte) error
}

// IsFile reports whether text, as [OpenSink] reads it, is the path of a file.
func IsFile(text string) bool { return text != "" && !strings.Contains(text, "://") }

// OpenSink opens the sink that text names: an https URL, to which lines are sent with
// POST, or the path of a file, to which they are added. Only this machine is reached
// without TLS.
func OpenSink(text string) (Sink, error) {
	if IsFile(text) {
		f := fileSink(text)
		file, err := f.open()
		if err != nil {
			return nil, err
		}
		return f, file.Close()
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the audit sink is the path of a file or an https URL"}
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the audit sink is the path of a file or an https URL"}
	}
	return &urlSink{url: u.String(), client: &http.Client{
		Timeout:       sendTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 1,
			IdleConnTimeout: time.Minute},
	}}, nil
}

// sendTimeout is how long a sink may take for some lines.
const sendTimeout = 15 * time.Second

// A fileSink adds lines to a file, best on another disk or one that only lets itself be
// added to (chattr +a).
type fileSink string

// Name implements [Sink].
func (f fileSink) Name() string { return hash("file " + string(f)) }

func (f fileSink) open() (*os.File, error) {
	file, err := os.OpenFile(string(f), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the file of the audit sink cannot be opened for adding to it", Err: err}
	}
	return file, nil
}

// Send implements [Sink]. What a crash cut off is left as a line of its own.
func (f fileSink) Send(_ context.Context, lines []byte) error {
	cut, err := f.cut()
	if err != nil {
		return err
	}
	if cut {
		lines = append([]byte{'\n'}, lines...)
	}
	file, err := f.open()
	if err != nil {
		return err
	}
	_, err = file.Write(lines)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the file of the audit sink cannot be written",
			Err: err}
	}
	return nil
}

// cut reports whether the file ends within a line.
func (f fileSink) cut() (bool, error) {
	file, size, err := f.read()
	if err != nil || file == nil {
		return false, err
	}
	end := []byte{'\n'}
	if size > 0 {
		_, err = file.ReadAt(end, size-1)
	}
	return end[0] != '\n', errors.Join(err, file.Close())
}

// read opens the file for reading; nil means that there is none.
func (f fileSink) read() (*os.File, int64, error) {
	file, err := os.Open(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil {
			return file, info.Size(), nil
		}
		err = errors.Join(err, file.Close())
	}
	return nil, 0, &haft.Error{Code: haft.CodeUnavailable, Message: "the file of the audit sink cannot be read",
		Err: err}
}

// sinkEnd is how much of a file is its end, in bytes: some hundred lines.
const sinkEnd = 256 << 10

// Known implements [Sink]. Lines that a crash cut off are left out.
func (f fileSink) Known(all bool, yield func(audit.Checkpoint)) (err error) {
	file, size, err := f.read()
	if err != nil || file == nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !all && size > sinkEnd {
		if _, err := file.Seek(size-sinkEnd, io.SeekStart); err != nil {
			return fmt.Errorf("read the end of the file of the audit sink: %w", err)
		}
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the file of the audit sink: %w", err)
		}
		var l audit.CheckpointLine
		if json.Unmarshal(text, &l) == nil && l.Checkpoint != nil && l.Checkpoint.Place != nil {
			yield(*l.Checkpoint)
		}
	}
}

// A urlSink sends lines to a server.
type urlSink struct {
	url    string
	client *http.Client
}

// Name implements [Sink].
func (u *urlSink) Name() string { return hash("url " + u.url) }

// Known implements [Sink]: a server cannot be asked.
func (u *urlSink) Known(bool, func(audit.Checkpoint)) error { return nil }

// Send implements [Sink].
func (u *urlSink) Send(ctx context.Context, lines []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(lines))
	if err != nil {
		return errors.New("the request to the audit sink cannot be made")
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := u.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the address, which may have a credential
		}
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the audit sink cannot be reached", Err: err}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	_ = res.Body.Close()                                         // nothing is read any more
	if res.StatusCode/100 != 2 {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: fmt.Sprintf("the audit sink answered with status %d", res.StatusCode)}
	}
	return nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
