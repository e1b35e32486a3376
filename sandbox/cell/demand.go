package cell

import (
	"math"
	"time"
)

// How long demand remembers: short enough to see a burst begin, long enough to
// see that calls keep coming.
const (
	shortMemory = time.Second
	longMemory  = 15 * time.Second
)

// demand estimates how many cells should be ready: as many as will be asked for
// while the next one is being made, twice over.
type demand struct {
	short, long float64 // arrivals a second, decaying
	last        time.Time
	make        time.Duration // how long making one takes, smoothed
}

// arrive counts one request.
func (d *demand) arrive(now time.Time) {
	since := now.Sub(d.last).Seconds()
	if d.last.IsZero() {
		since = math.Inf(1)
	}
	d.short = d.short*math.Exp(-since/shortMemory.Seconds()) + 1/shortMemory.Seconds()
	d.long = d.long*math.Exp(-since/longMemory.Seconds()) + 1/longMemory.Seconds()
	d.last = now
}

// made notes how long one took.
func (d *demand) made(took time.Duration) {
	if d.make == 0 {
		d.make = took
		return
	}
	d.make += (took - d.make) / 8
}

// want returns the number of cells to keep ready.
func (d *demand) want(least, most int) int {
	n := math.Ceil(2 * max(d.short, d.long) * max(d.make, time.Millisecond).Seconds())
	return max(least, min(most, int(n)))
}
