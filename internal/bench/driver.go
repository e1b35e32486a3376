package bench

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// drivers are programs that run the job by the libraries of others, in one process that lives as long as it
// is asked: nobody pays for loading a library at each call. A line of input is the number of a caller; the
// line of output has the same number, and the value or an error.
//
//go:embed driver/*
var drivers embed.FS

// A driver is such a program that runs.
type driver struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex // one line at a time
	waiting map[int]chan answer
	ended   error
}

type answer struct {
	ID    int    `json:"id"`
	Value string `json:"value"`
	Error string `json:"error"`
}

// decode reads JSON.
func decode(raw []byte, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

// writeDrivers writes the drivers, and the job as a script, to the directory of this run.
func (b *contest) writeDrivers() error {
	entries, err := drivers.ReadDir("driver")
	if err != nil {
		return fmt.Errorf("list drivers: %w", err)
	}
	for _, e := range entries {
		raw, err := drivers.ReadFile("driver/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(b.dir, e.Name()), raw, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write a driver: %w", err)
		}
	}
	return nil
}

// openDriver starts a driver.
func (b *contest) openDriver(program, file string) func(context.Context) (*ready, error) {
	return func(ctx context.Context) (*ready, error) {
		d := &driver{waiting: map[int]chan answer{}}
		d.cmd = exec.CommandContext(ctx, program, filepath.Join(b.dir, file), b.cfg.Peers, b.python)
		d.cmd.Dir, d.cmd.Stderr = b.dir, os.Stderr
		d.cmd.Env = append(os.Environ(), "HOME="+b.dir)
		out, err := d.cmd.StdoutPipe()
		if err == nil {
			d.in, err = d.cmd.StdinPipe()
		}
		if err == nil {
			err = d.cmd.Start()
		}
		if err != nil {
			return nil, fmt.Errorf("start a driver: %w", err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			d.read(out)
		}()
		return &ready{do: d.call, close: func() {
			_ = d.in.Close() // which ends it
			<-read
			_ = d.cmd.Wait() // nothing of it is kept
		}}, nil
	}
}

// read hands answers to those who wait until there are no more.
func (d *driver) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // a library prints
		}
		d.mu.Lock()
		if c := d.waiting[a.ID]; c != nil {
			delete(d.waiting, a.ID)
			c <- a
		}
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = fmt.Errorf("the driver has ended")
	for _, c := range d.waiting {
		c <- answer{Error: d.ended.Error()}
	}
}

// call has the driver run the job once.
func (d *driver) call(ctx context.Context, caller int) error {
	mine := make(chan answer, 1)
	d.mu.Lock()
	err := d.ended
	if err == nil {
		d.waiting[caller] = mine
		_, err = fmt.Fprintln(d.in, caller)
	}
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("ask the driver: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a := <-mine:
		if a.Value != jobValue {
			return fmt.Errorf("the driver answers %.100q: %.300s", a.Value, a.Error)
		}
	}
	return nil
}
