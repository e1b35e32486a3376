package cell

import (
	"math"
	"time"
)

// memory is how long demand remembers.
const memory = 10 * time.Second

// demand estimates how many cells should be ready: as many as will be asked for
// while the next one is being made, twice over.
type demand struct {
	rate float64 // arrivals a second, decaying
	last time.Time
	make time.Duration // how long making one takes, smoothed
}

// arrive counts one request.
func (d *demand) arrive(now time.Time) {
	if !d.last.IsZero() {
		d.rate *= math.Exp(-now.Sub(d.last).Seconds() / memory.Seconds())
	}
	d.rate += 1 / memory.Seconds()
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
	n := math.Ceil(2 * d.rate * max(d.make, time.Millisecond).Seconds())
	return max(least, min(most, int(n)))
}
