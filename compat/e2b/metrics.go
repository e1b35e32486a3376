package e2b

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"haft"
)

// noTime is the time of a file of which none is known.
var noTime time.Time

// cpus returns how many processors sandboxes share.
func cpus() int { return runtime.NumCPU() }

// measure prints the memory of all processes of a sandbox in pages of 4 KiB, their processor time in
// hundredths of a second, and the size of its files in KiB.
const measure = `m=0; t=0; for p in /proc/[0-9]*; do
read -r _ r _ < $p/statm && m=$((m+r)); s=$(< $p/stat) && set -- ${s##*) } && t=$((t+${12}+${13})); done 2>/dev/null
echo $m $t $(du -sk /work 2>/dev/null | cut -f1)`

// metrics answers what a sandbox uses now. Earlier values are not kept.
func (a controlHandlers) metrics(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	args := map[string]any{"session": s.session, "argv": []string{"/bin/bash", "-c", measure}}
	res, _, err := a.call(r.Context(), s, p, "run_command", haft.NewCallID(), args, func(haft.Event) {})
	if err == nil {
		err = refusedCall(res)
	}
	if err != nil {
		return a.goneOr(r.Context(), p, s, err)
	}
	var out struct {
		Stdout string `json:"stdout"`
	}
	_ = json.Unmarshal(res.Value, &out) // without it nothing is used
	number := func(i int) int64 {
		fields := strings.Fields(out.Stdout)
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseInt(fields[i], 10, 64) // what is no number is 0
		return n
	}
	now, limits := time.Now().UTC(), a.cfg.Limits.Or(haft.DefaultLimits())
	writeJSON(w, http.StatusOK, []map[string]any{{
		"timestamp": now, "timestampUnix": now.Unix(), "cpuCount": cpus(),
		"cpuUsedPct": float64(number(1)) / max(time.Since(s.started).Seconds(), 1),
		"memUsed":    number(0) * 4096, "memTotal": limits.Memory, "memCache": 0,
		"diskUsed": number(2) * 1024, "diskTotal": limits.Disk,
	}})
	return nil
}
