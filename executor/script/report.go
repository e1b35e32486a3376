package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"haft/internal/value"
	"haft/sandbox/cell"
)

// A tool reports on its channel how far it is, and each item of a generator:
//
//	{"type":"progress","progress":3,"total":10,"message":"third page"}
//	{"type":"progress","progress":3,"value":…}
//
// A Bash tool, which has no frames, writes a line to the descriptor of its value:
// RS done US total US text LF. RS cannot be in JSON, so that no value is taken for a report.
const (
	reportStart, reportField = '\x1e', '\x1f'
	// reportPace is the least time between two reports that are passed on. Of those that come
	// in between the last one is passed on.
	reportPace = 50 * time.Millisecond
	// maxReport bounds a frame without an item, maxReportText its message. A longer message is
	// left out and not cut, because the rest of a cut secret would not be recognised. The
	// harnesses have a bound of 1,000 characters.
	maxReport, maxReportText = 8 << 10, 4000
	tooLong                  = "(a text that is too long)"
	// maxItem bounds an item that is passed on; maxItems and maxItemBytes bound them all. Items
	// beyond are in the value of the call only. The harnesses have the same bounds.
	maxItem, maxItems, maxItemBytes = 32 << 10, 1000, 1 << 20
	// maxReports is how many reports of a run are passed on, before the last one. Each is an event that is kept.
	maxReports = 5000
	// Not more than reportBurst reports are read in a reportPace. A tool that has more waits.
	reportBurst = 512
)

// bashProgress defines the command haft-progress in a Bash tool and in the shells that it starts.
const bashProgress = `BASH_FUNC_haft-progress%%=() { local t="${*:3}"; ` +
	`printf '\036%s\037%s\037%s\n' "${1-}" "${2-}" "${t//[$'\n\036\037']/ }" >&"${HAFT_RESULT:?}"; }`

// A report says how far a tool is. It is the data of the event.
type report struct {
	Progress float64         `json:"progress"`
	Total    *float64        `json:"total,omitempty"`
	Message  string          `json:"message,omitempty"`
	Item     json.RawMessage `json:"item,omitempty"`
}

// checkReport reports what is wrong with a frame of n bytes that is a report.
func (m *reply) checkReport(n int) error {
	switch {
	case m.Progress == nil:
		return fmt.Errorf("%w: a report without a number", errFrame)
	case m.Value == nil && n > maxReport, len(m.Value) > maxItem:
		return fmt.Errorf("%w: a report that is too large", errFrame)
	case m.Value == nil:
		return nil
	}
	if err := value.Check(m.Value, maxItem); err != nil {
		return fmt.Errorf("%w: an item that is no value: %w", errFrame, err)
	}
	return nil
}

// reports passes on what one tool reports. It starts nothing before the first report.
type reports struct {
	pass func(json.RawMessage)

	mu           sync.Mutex
	next         *report // waits for timer
	timer        *time.Timer
	last         time.Time
	closed       bool
	sent         int
	items, bytes int
	read         int // since window
	window       time.Time
}

// add takes a report.
func (r *reports) add(p report) {
	if r.pass == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Message = clean(p.Message); len(p.Message) > maxReportText {
		p.Message = tooLong
	}
	wait := reportPace - time.Since(r.last)
	switch {
	case r.closed:
	case p.Item != nil && r.items < maxItems && r.bytes+len(p.Item) <= maxItemBytes:
		r.items, r.bytes = r.items+1, r.bytes+len(p.Item)
		r.send(p)
	default:
		full := r.sent >= maxReports // then close passes the last one on
		if p.Item = nil; r.next == nil && wait > 0 && !full {
			r.timer = time.AfterFunc(wait, r.flush)
		}
		if r.next = &p; wait <= 0 && !full {
			r.sendNext()
		}
	}
}

// send passes a report on. Preconditions: mu is held.
func (r *reports) send(p report) {
	if raw, err := json.Marshal(p); err == nil { // numbers that JSON does not have were refused
		r.last, r.sent = time.Now(), r.sent+1
		r.pass(raw)
	}
}

// flush passes on the report that waits.
func (r *reports) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendNext()
}

// sendNext passes on the report that waits, and stops its timer. Preconditions: mu is held.
func (r *reports) sendNext() {
	if r.next != nil {
		if r.timer != nil {
			r.timer.Stop()
		}
		r.send(*r.next)
		r.next = nil
	}
}

// close passes on the last report, and no more.
func (r *reports) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendNext()
	r.closed = true
}

// throttle is called for each report that is read. It waits if there are too many.
func (r *reports) throttle(c *cell.Cell) {
	if r.read++; r.read%reportBurst != 0 {
		return
	}
	if wait := reportPace - time.Since(r.window); wait > 0 {
		select {
		case <-time.After(wait):
		case <-c.Ended():
		}
	}
	r.window = time.Now()
}

// bashAnswer reads the channel of a Bash tool to its end: reports, which are passed on, and the
// value, of which it returns up to one byte more than limit.
func (r *run) bashAnswer(c *cell.Cell, limit int64) []byte {
	var said []byte
	in := bufio.NewReader(c.Conn)
	for {
		part, err := in.ReadSlice(reportStart)
		rest, found := bytes.CutSuffix(part, []byte{reportStart})
		said = append(said, rest[:min(int64(len(rest)), limit+1-int64(len(said)))]...)
		if found {
			var line []byte
			line, err = in.ReadSlice('\n')
			r.bashReport(line, err)
			r.reports.throttle(c)
			for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is too long
				_, err = in.ReadSlice('\n')
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return said // whatever cuts it short, what has arrived is what there is
		}
	}
}

// bashReport passes on a line of haft-progress, unless it has no number.
func (r *run) bashReport(line []byte, err error) {
	fields := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte{reportField}, 3)
	if len(fields) < 3 {
		return
	}
	done, ok := finite(string(fields[0]))
	if !ok {
		return
	}
	if err != nil { // the text goes on, or is cut
		fields[2] = []byte(tooLong)
	}
	p := report{Progress: done, Message: string(fields[2])}
	if total, ok := finite(string(fields[1])); ok {
		p.Total = &total
	}
	r.reports.add(p)
}

// finite reads a number that JSON can hold.
func finite(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}
