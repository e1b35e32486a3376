package process

import (
	"io"
	"os"
	"time"

	"haft/sandbox"
)

// An output passes on what a command writes up to a limit. What is beyond is
// read and counted, so that the command never blocks on a full pipe.
type output struct {
	pipe    *sandbox.Pipe
	done    chan struct{}
	written int64
	dropped int64
}

// startOutput reads pipe until its end. A nil writer discards.
func startOutput(pipe *os.File, to io.Writer, limit int64) *output {
	o := &output{pipe: sandbox.NewPipe(pipe), done: make(chan struct{})}
	if to == nil {
		to = io.Discard
	}
	go o.copy(to, limit)
	return o
}

// copy is the reader's goroutine. A writer that fails gets no more, but the
// command goes on.
func (o *output) copy(to io.Writer, limit int64) {
	defer close(o.done)
	buf := make([]byte, 32<<10)
	for broken := false; ; {
		n, err := o.pipe.Read(buf)
		keep := max(0, min(int64(n), limit-o.written))
		o.written += int64(n)
		o.dropped += int64(n) - keep
		if keep > 0 && !broken {
			_, werr := to.Write(buf[:keep])
			broken = werr != nil
		}
		if err != nil {
			return
		}
	}
}

// finish waits for the end of the pipe, but at most d: a process that escaped may hold the
// other end open.
func (o *output) finish(d time.Duration) {
	_ = o.pipe.SetReadDeadline(time.Now().Add(d)) // pipes have deadlines
	<-o.done
	_ = o.pipe.Close() // only read from
}
