package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/store/rowset"
	"haft/internal/store/stored"
)

// What was used is counted when calls end, in the same transaction, by the hour.
// To sum it up out of the calls would mean to read all of them: a month of an
// organisation may have millions, and has a few thousand of these rows.
var insertUsage = &insert{
	"INSERT INTO usage_hours (org, hour, tool, usr, agent, status, calls, cached, wall, cpu, output, network, rss)", 13,
	` ON CONFLICT (org, hour, tool, usr, agent, status) DO UPDATE SET calls = usage_hours.calls + excluded.calls, cached = usage_hours.cached + excluded.cached,
	wall = usage_hours.wall + excluded.wall, cpu = usage_hours.cpu + excluded.cpu, output = usage_hours.output + excluded.output,
	network = usage_hours.network + excluded.network, rss = CASE WHEN excluded.rss > usage_hours.rss THEN excluded.rss ELSE usage_hours.rss END`,
}

// hourMicros is an hour as times are kept.
const hourMicros = int64(time.Hour / time.Microsecond)

// usageRows counts the calls that end with records. A call ends once: of several records of
// one the last counts. Those that never had a tool
// are counted under none, so that nobody fills the table with names.
func usageRows(records []haft.Record) []any {
	var rows []any
	for _, r := range rowset.Distinct(records, func(r *haft.Record) string { return string(r.Call.ID) }) {
		if !r.Status.Final() {
			continue
		}
		p, tool := &r.Call.Principal, ""
		if r.ToolID != "" {
			tool = column(toolOf(r))
		}
		at := stored.Micros(cmp.Or(r.Ended, r.Created))
		var cached, wall, cpu, output, network, memory int64
		if res := r.Result; res != nil {
			wall = time.Duration(res.Usage.Wall).Microseconds()
			if measured, _ := res.Usage.Measured(); measured != nil {
				cpu = measured.D().Microseconds()
			}
			output = res.Usage.Stdout + res.Usage.Stderr + int64(len(res.Value))
			cached = stored.Bool(res.Cached)
			network, memory = res.Usage.Network.D().Microseconds(), res.Usage.MaxRSS
		}
		rows = append(rows, column(p.Org), at-at%hourMicros, tool, column(p.Owner()), column(p.Agent),
			string(r.Status), int64(1), cached, wall, cpu, output, network, memory)
	}
	return rowset.SumUsage(rows, loggedColumns())
}

// toolOf is the name of the tool that ran, which a call may name by its id.
func toolOf(r *haft.Record) string {
	if r.Result != nil && r.Result.Tool != "" {
		return r.Result.Tool
	}
	return r.Call.Tool
}

// maxUsage is how many sums are given at most.
const maxUsage = 10_000

// Usage sums up what calls of an organisation used.
func (s Calls) Usage(ctx context.Context, org string, q haft.UsageQuery) ([]haft.UsageSum, error) {
	now := time.Now()
	if q.Until.IsZero() {
		q.Until = now.Add(time.Hour)
	}
	if q.From.IsZero() {
		q.From = q.Until.Add(-30 * 24 * time.Hour)
	}
	if q.Limit <= 0 {
		q.Limit = MaxPage
	}
	sums := map[sumKey]*haft.UsageSum{}
	by := func(b haft.UsageBy) bool { return slices.Contains(q.By, b) }
	err := each(ctx, s.db, func(r scanner) error {
		var k sumKey
		var hour, calls, cached, wall, cpu, output, network, memory int64
		var status haft.Status
		if err := r.Scan(&hour, &k.tool, &k.user, &k.agent, &status, &calls, &cached, &wall, &cpu,
			&output, &network, &memory); err != nil {
			return err
		}
		if strings.HasPrefix(k.user, haft.OwnerMark) {
			k.user = "" // nobody: it was a credential without a user
		}
		if hour != 0 {
			k.start = period(stored.Time(hour), by(haft.ByDay), by(haft.ByMonth))
		}
		sum := sums[k]
		if sum == nil {
			if len(sums) >= maxUsage {
				return invalid("that are more than %d sums; ask for less, or for a shorter time", maxUsage)
			}
			sum = &haft.UsageSum{Start: k.start, Tool: k.tool, User: k.user, Agent: k.agent,
				ByStatus: map[haft.Status]int64{}}
			sums[k] = sum
		}
		sum.Calls += calls
		sum.ByStatus[status] += calls
		sum.Wall += haft.Millis(time.Duration(wall) * time.Microsecond)
		sum.CPU += haft.Millis(time.Duration(cpu) * time.Microsecond)
		sum.Cached, sum.Output = sum.Cached+cached, sum.Output+output
		sum.Network, sum.MaxRSS = sum.Network+haft.Millis(network*1000), max(sum.MaxRSS, memory)
		return nil
	}, usageQuery(column(org), q))
	if err != nil {
		return nil, fmt.Errorf("sum up usage: %w", err)
	}
	list := make([]haft.UsageSum, 0, len(sums))
	for _, sum := range sums {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b haft.UsageSum) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Tool, b.Tool),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent))
	})
	return list[:min(len(list), q.Limit)], nil
}

// A sumKey is what sums are told apart by.
type sumKey struct {
	start             time.Time
	tool, user, agent string
}

// period is when the hour, day or month begins that an hour is in.
func period(hour time.Time, day, month bool) time.Time {
	y, m, d := hour.Date()
	switch {
	case month:
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case day:
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	return hour
}

// usageQuery sums up by what is asked for. Days and months are made of hours
// later: how long a month is no database has to know.
func usageQuery(org string, q haft.UsageQuery) query {
	groups, picked := []string{"status"}, []string{}
	pick := func(name, none string, by ...haft.UsageBy) {
		if slices.ContainsFunc(by, func(b haft.UsageBy) bool { return slices.Contains(q.By, b) }) {
			groups, none = append(groups, name), name
		}
		picked = append(picked, none)
	}
	pick("hour", "0", haft.ByHour, haft.ByDay, haft.ByMonth)
	pick("tool", "''", haft.ByTool)
	pick("usr", "''", haft.ByUser)
	pick("agent", "''", haft.ByAgent)
	text := build("SELECT "+strings.Join(picked, ", ")+", status, SUM(calls), SUM(cached), SUM(wall), SUM(cpu), "+
		"SUM(output), SUM(network), MAX(rss) FROM usage_hours WHERE org = ? AND hour >= ? AND hour < ?",
		org, stored.Micros(q.From)-stored.Micros(q.From)%hourMicros, stored.Micros(q.Until))
	for _, c := range []struct{ name, value string }{{"tool", q.Tool}, {"usr", q.User}, {"agent", q.Agent}} {
		if c.value != "" {
			text.add(" AND "+c.name+" = ?", column(c.value))
		}
	}
	text.add(" GROUP BY " + strings.Join(groups, ", "))
	return text.logged()
}
