package flagvalue

import (
	"testing"
	"time"

	"haft"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"512MiB": 512 << 20, "1G": 1 << 30, "10": 10, "3MB": 3e6,
		"7 KiB": 7 << 10} {
		var s Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("size %q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, bad := range []string{"", "MiB", "-1", "0", "1TiB", "9999999999GiB", "1.5G"} {
		var s Size
		if err := s.Set(bad); err == nil {
			t.Errorf("size %q is read as %d", bad, s)
		}
	}
}

func TestMemory(t *testing.T) {
	var m Memory
	if err := m.Set("512MiB"); err != nil || m != 512<<20 {
		t.Errorf("memory is %d, %v", m, err)
	}
	if again := m.String(); m.Set(again) != nil || m != 512<<20 { // drafts get it that way
		t.Errorf("memory is printed as %s, which is %d", again, m)
	}
	const want = "that is 512 bytes, and no tool runs with less than 1MiB: write a unit, such as 512MiB"
	if err := m.Set("512"); err == nil || err.Error() != want || m != 512<<20 {
		t.Errorf("memory 512: %v, want %s", err, want)
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]haft.Rate{
		"5/s": {Calls: 5, Within: haft.Millis(time.Second)}, "60/m": {Calls: 60, Within: haft.Millis(time.Minute)},
		"9/d": {Calls: 9, Within: haft.Millis(24 * time.Hour)}, "3600/h:7": {PerSecond: 1, Burst: 7},
		"0.5/s": {PerSecond: .5}, "30/m:1": {PerSecond: .5, Burst: 1},
	} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("parseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "5", "5/", "5/w", "/s", "-1/s", "0/s", "NaN/s", "Inf/s", "5/s:", "5/s:0", "5/s:x",
		"1e300/s"} {
		if got, err := parseRate(bad); err == nil {
			t.Errorf("parseRate(%q) = %v, want an error", bad, got)
		}
	}
}

// A rate that is printed reads as the same rate: drafts get it that way.
func TestRate_reads_what_it_prints(t *testing.T) {
	for _, text := range []string{"5/s", "7/m", "1/h:3", "0.1/s", "60/d", "5/s:2", "60/m,1/s:5"} {
		var r, again Rate
		if err := r.Set(text); err != nil {
			t.Fatal(err)
		}
		if err := again.Set(r.String()); err != nil || again != r {
			t.Errorf("%s is printed as %s, which is %v, %v", text, &r, again, err)
		}
	}
}

// A rule that was kept before rates had windows stays the bucket that it is.
func TestRate_prints_an_old_bucket_as_one(t *testing.T) {
	var both Rate
	for _, bad := range []string{"5/s,6/m", "5/s:1,6/m:1", "5/s,", "5/s:1,5/s"} {
		if err := both.Set(bad); err == nil {
			t.Errorf("%s is read as %+v", bad, both)
		}
	}
	old, again := Rate{PerSecond: 5}, Rate{}
	if err := again.Set(old.String()); err != nil || again != (Rate{PerSecond: 5, Burst: 5}) {
		t.Errorf("it is printed as %s, which is %+v, %v", &old, again, err)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90s": now.Add(-90 * time.Second), "2h": now.Add(-2 * time.Hour), "3d": now.Add(-72 * time.Hour),
		"2026-03-01T00:00:00Z": time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("ParseSince(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"yesterday", "-2h", "d", "9999999999h", "2026-03-01"} {
		if got, err := ParseSince(bad, now); err == nil {
			t.Errorf("ParseSince(%q) = %v, %v; want an error", bad, got, err)
		}
	}
}
