package haft_test

import (
	"encoding/json"
	"testing"
	"time"

	"haft"
)

func TestUsage_writes_null_for_what_is_unknown(t *testing.T) {
	for name, tt := range map[string]struct {
		usage haft.Usage
		want  string
	}{
		"no run": {haft.Usage{}, `{"wall_ms":0,"cpu_ms":null,"max_rss_bytes":null}`},
		"not measured": {haft.Usage{Wall: 2e6, Stdout: 3},
			`{"wall_ms":2,"cpu_ms":null,"max_rss_bytes":null,"stdout_bytes":3}`},
		"memory unknown": {haft.Usage{Wall: 2e6, CPU: 1500e3}, `{"wall_ms":2,"cpu_ms":1.5,"max_rss_bytes":null}`},
		"time unknown":   {haft.Usage{Wall: 2e6, MaxRSS: 1}, `{"wall_ms":2,"cpu_ms":null,"max_rss_bytes":1}`},
		"below a step":   {haft.Usage{Wall: 2e6, CPU: 1, MaxRSS: 1}, `{"wall_ms":2,"cpu_ms":0.001,"max_rss_bytes":1}`},
		"all is known": {haft.Usage{Wall: 2e6, CPU: 1e6, MaxRSS: 4096, Processes: 2, Disk: 3, Stdout: 4, Stderr: 5},
			`{"wall_ms":2,"cpu_ms":1,"max_rss_bytes":4096,"max_processes":2,"disk_bytes":3,"stdout_bytes":4,"stderr_bytes":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tt.usage)
			if err != nil || string(got) != tt.want {
				t.Fatalf("json.Marshal(%+v) = %s, %v, want %s", tt.usage, got, err, tt.want)
			}
			back := haft.Usage{}
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if again, err := json.Marshal(back); err != nil || string(again) != tt.want {
				t.Errorf("%s is %s, %v after it was read", got, again, err)
			}
		})
	}
}

func TestUsage_reads_records_of_older_versions(t *testing.T) {
	known := haft.Usage{Wall: 2e6, CPU: 1e6, MaxRSS: 4096}
	for text, want := range map[string]haft.Usage{
		`{"wall_ms":2,"cpu_ms":0,"max_rss_bytes":0}`: {Wall: 2e6},
		`{"wall_ms":2}`: {Wall: 2e6},
		`{"wall_ms":2,"cpu_ms":null,"max_rss_bytes":null}`: {Wall: 2e6},
		`{"wall_ms":2,"cpu_ms":1,"max_rss_bytes":4096}`:    known,
		`{}`:   {},
		`null`: {},
	} {
		var got haft.Usage
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("json.Unmarshal(%s) = %+v, %v, want %+v", text, got, err, want)
		}
		cpu, rss := got.Measured()
		if (cpu != nil) != (want.CPU > 0) || (rss != nil) != (want.MaxRSS > 0) {
			t.Errorf("Measured of %s = %v, %v", text, cpu, rss)
		}
	}
}

func TestUsageSum_writes_null_for_time_that_nobody_measured(t *testing.T) {
	for cpu, want := range map[time.Duration]string{
		0: `{"calls":1,"by_status":null,"cached":0,"wall_ms":5,"network_ms":0,"output_bytes":0,` +
			`"cpu_ms":null,"max_rss_bytes":null}`,
		time.Millisecond: `{"calls":1,"by_status":null,"cached":0,"wall_ms":5,"network_ms":0,"output_bytes":0,` +
			`"cpu_ms":1,"max_rss_bytes":9}`,
	} {
		sum := haft.UsageSum{Calls: 1, Wall: 5e6, CPU: haft.Millis(cpu)}
		if cpu > 0 {
			sum.MaxRSS = 9
		}
		got, err := json.Marshal(sum)
		if err != nil || string(got) != want {
			t.Errorf("json.Marshal(%+v) = %s, %v, want %s", sum, got, err, want)
		}
		back := haft.UsageSum{}
		if err := json.Unmarshal(got, &back); err != nil || back.CPU.D() != cpu {
			t.Errorf("json.Unmarshal(%s) has %v, %v, want %v", got, back.CPU, err, cpu)
		}
	}
}
