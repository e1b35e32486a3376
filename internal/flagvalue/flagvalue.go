// Package flagvalue has the types of flags that package pflag does not have: sizes, ages, counts
// and rates.
package flagvalue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"haft"
)

// A Size is a flag for a number of bytes, such as 512MiB.
type Size int64

// units are those in which a size can be given.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"K", 1 << 10},
	{"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}, {"", 1}}

// String returns the size in bytes.
func (s *Size) String() string {
	if *s == 0 {
		return "512MiB"
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type is what the help calls the value.
func (s *Size) Type() string { return "size" }

// Set reads a size.
func (s *Size) Set(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return errors.New("a size is a number with B, KiB, MiB or GiB")
}

// A Memory is a flag for the memory of a tool, such as 512MiB.
type Memory Size

// leastMemory is less than any interpreter needs.
const leastMemory = 1 << 20

// String returns the size in bytes.
func (m *Memory) String() string { return (*Size)(m).String() }

// Type is what the help calls the value.
func (m *Memory) Type() string { return "size" }

// Set reads a size. One without a unit is a number of bytes, which is seldom meant.
func (m *Memory) Set(text string) error {
	var s Size
	if err := s.Set(text); err != nil {
		return err
	}
	if s < leastMemory {
		return fmt.Errorf("that is %d bytes, and no tool runs with less than 1MiB: write a unit, such as 512MiB", s)
	}
	*m = Memory(s)
	return nil
}

// unbounded is the value of a bound that does not bound.
const unbounded = "none"

// An Age is a flag for how long something is kept, such as 90d.
type Age haft.Millis

// String implements [pflag.Value].
func (a *Age) String() string { return AgeText(haft.Millis(*a)) }

// Type is what the help calls the value.
func (a *Age) Type() string { return "age" }

// Set reads an age.
func (a *Age) Set(text string) error {
	if text == unbounded {
		*a = -Age(time.Millisecond)
		return nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 36500 {
			*a = Age(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		*a = Age(d)
		return nil
	}
	return errors.New("an age is written 90d or 12h, or none for no bound")
}

// AgeText writes an age in days, if it is whole days.
func AgeText(m haft.Millis) string {
	switch d := m.D(); {
	case m == 0:
		return ""
	case m < 0:
		return unbounded
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	default:
		return d.String()
	}
}

// A Count is a flag for how many of something are kept.
type Count int64

// String implements [pflag.Value].
func (n *Count) String() string { return CountText(int64(*n)) }

// Type is what the help calls the value.
func (n *Count) Type() string { return "count" }

// Set reads a count.
func (n *Count) Set(text string) error {
	if text == unbounded {
		*n = -1
		return nil
	}
	got, err := strconv.ParseInt(text, 10, 64)
	if err != nil || got <= 0 || got > math.MaxInt32 {
		return errors.New("a count is a positive number, or none for no bound")
	}
	*n = Count(got)
	return nil
}

// CountText writes a count.
func CountText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 0:
		return unbounded
	}
	return strconv.FormatInt(n, 10)
}

// A Rate is a flag for how often a tool may be called.
type Rate haft.Rate

// String implements [pflag.Value].
func (r *Rate) String() string {
	if *r == (Rate{}) {
		return ""
	}
	text := strconv.FormatFloat(r.PerSecond, 'g', -1, 64) + "/s"
	if r.Calls > 0 {
		window := strconv.Itoa(r.Calls) + "/" + rateUnit(r.Within)
		if r.PerSecond == 0 {
			return window
		}
		text = window + "," + text
	}
	if burst := cmp.Or(r.Burst, wholeBurst(r.PerSecond)); burst > 0 {
		text += ":" + strconv.Itoa(burst)
	}
	return text
}

// wholeBurst is the burst of a bucket that has to be written, because without one the text reads as a window.
func wholeBurst(perSecond float64) int {
	if perSecond == math.Trunc(perSecond) {
		return int(perSecond)
	}
	return 0
}

// Type is what the help calls the value.
func (r *Rate) Type() string { return "string" }

// Set reads a rate.
func (r *Rate) Set(text string) error {
	text, second, both := strings.Cut(text, ",")
	parsed, err := parseRate(text)
	if both && err == nil {
		var bucket haft.Rate
		if bucket, err = parseRate(second); err == nil && (parsed.Calls == 0 || bucket.PerSecond == 0) {
			err = errors.New("two rates are a window and a bucket, such as 60/m,1/s:5")
		}
		parsed.PerSecond, parsed.Burst = bucket.PerSecond, bucket.Burst
	}
	if err == nil {
		*r = Rate(parsed)
	}
	return err
}

// rateUnits are the times that a rate can be written per.
func rateUnits() map[string]time.Duration {
	return map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
}

// rateUnit writes the time of a window: a unit where there is one.
func rateUnit(within haft.Millis) string {
	for name, unit := range rateUnits() {
		if within.D() == unit {
			return name
		}
	}
	return within.D().String()
}

// parseRate reads N/s, N/m, N/h or N/d: a window, no more than N calls in any such time. With :BURST
// behind it, or with a fraction of a call as in 0.5/s, it is a bucket that fills so fast.
func parseRate(text string) (haft.Rate, error) {
	wrong := errors.New("a rate is N/s, N/m, N/h or N/d, no more than N in any such time; or N/s:BURST, " +
		"so many at once and then so many in such a time")
	text, burst, bursts := strings.Cut(text, ":")
	count, unit, ok := strings.Cut(text, "/")
	per := rateUnits()[unit]
	n, err := strconv.ParseFloat(count, 64)
	if !ok || per == 0 || err != nil || !(n > 0 && n < 1e9) {
		return haft.Rate{}, wrong
	}
	r := haft.Rate{PerSecond: n / per.Seconds()}
	if n == math.Trunc(n) && !bursts {
		r = haft.Rate{Calls: int(n), Within: haft.Millis(per)}
	}
	if bursts {
		if r.Burst, err = strconv.Atoi(burst); err != nil || r.Burst < 1 {
			return haft.Rate{}, wrong
		}
	}
	return r, nil
}

// ParseSince reads how far to look back: a duration, or a time.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	short := text
	times := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		short, times = days+"h", 24
	}
	if d, err := time.ParseDuration(short); err == nil && d >= 0 && d < 1e6*time.Hour {
		return now.Add(-times * d), nil
	}
	return time.Time{},
		errors.New("--since is a duration such as 90s, 2h or 3d, or a time such as 2006-01-02T15:04:05Z")
}
