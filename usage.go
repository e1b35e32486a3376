package haft

import (
	"encoding/json"
	"time"
)

// UsageBy is a field by which usage is grouped.
type UsageBy string

// The fields by which usage is grouped.
const (
	ByTool  UsageBy = "tool"
	ByUser  UsageBy = "user"
	ByAgent UsageBy = "agent"
	ByHour  UsageBy = "hour"  // of UTC, like the others
	ByDay   UsageBy = "day"   // from midnight on
	ByMonth UsageBy = "month" // from its first day on
)

// A UsageQuery asks what was used. Empty fields match all.
type UsageQuery struct {
	// From and Until bound when calls ended, to the hour: that of From counts, and
	// that of Until does not unless it lies within it. Zero means the last 30 days.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Tool  string    `json:"tool,omitempty"`
	User  string    `json:"user,omitempty"`
	Agent string    `json:"agent,omitempty"`
	// By groups usage; none means one sum. At most one of hour, day and month may be
	// there.
	By []UsageBy `json:"by,omitempty"`
	// Limit is the most to give, those with the most calls of each period first; 0
	// means 1,000.
	Limit int `json:"limit,omitempty"`
}

// A UsageSum is what calls used that have ended. Fields that are not in
// [UsageQuery.By] are empty.
type UsageSum struct {
	// Start is when the hour, day or month begins.
	Start time.Time `json:"start,omitzero"`
	Tool  string    `json:"tool,omitempty"`
	User  string    `json:"user,omitempty"`
	Agent string    `json:"agent,omitempty"`
	// Calls is how many there were, and ByStatus how many of each status.
	Calls    int64            `json:"calls"`
	ByStatus map[Status]int64 `json:"by_status"`
	// Cached is how many of them were answered without a run.
	Cached int64  `json:"cached"`
	Wall   Millis `json:"wall_ms"`
	// CPU is that of the calls whose processor time was measured: less than was used if
	// there were others too, and 0, or null in JSON, if there were only others.
	CPU Millis `json:"cpu_ms" nullable:"true"`
	// MaxRSS is the most memory that one of the calls took; 0, or null in JSON, if it was not measured.
	MaxRSS int64 `json:"max_rss_bytes" nullable:"true"`
	// Network is how long connections through the egress proxy took, all together.
	Network Millis `json:"network_ms"`
	// Output is what was printed and given back, in bytes.
	Output int64 `json:"output_bytes"`
}

// MarshalJSON writes null for processor time and memory that nobody has measured.
func (s UsageSum) MarshalJSON() ([]byte, error) {
	type fields UsageSum
	cpu, rss := Usage{CPU: s.CPU, MaxRSS: s.MaxRSS}.Measured()
	return json.Marshal(struct {
		fields
		CPU    *Millis `json:"cpu_ms"`
		MaxRSS *int64  `json:"max_rss_bytes"`
	}{fields(s), cpu, rss})
}
