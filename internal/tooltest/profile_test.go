package tooltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"haft"
)

// What a tool writes as its profile is bounded, and never spoils the report.
func TestRun_addProfile_bounds_what_a_tool_says(t *testing.T) {
	of := profiled{"a.py", []string{"one", "two"}}
	for _, bad := range []string{"NaN 1", "Inf 1", "-Inf 1", "1e308 1", "-1 1", "1 3", "x 1"} {
		r := &run{}
		r.addProfile(of, []byte(bad+"\n1 2\n"))
		list := mostSpent(r.spent)
		if _, err := json.Marshal(list); err != nil || len(list) != 1 || list[0].Where != "a.py:2" {
			t.Errorf("%s: the profile is %+v, %v", bad, list, err)
		}
	}
	r := &run{}
	for range 20 {
		r.addProfile(of, []byte(strings.Repeat("999999999 1\n", maxSamples)))
	}
	if list := mostSpent(r.spent); len(list) != 1 || list[0].Time <= 0 || list[0].Percent != 100 {
		t.Errorf("the most is %+v", list)
	}
	var places strings.Builder
	for i := range 3 * maxSamples {
		fmt.Fprintf(&places, "1 place %d\n", i)
	}
	r = &run{}
	r.addProfile(of, []byte(places.String()))
	r.addProfile(of, []byte(strings.ReplaceAll(places.String(), "place", "other")))
	if len(r.spent) > maxPlaces {
		t.Errorf("there are %d places", len(r.spent))
	}
}

// The file of a profile is taken out of the results of tools that are profiled, and of no others: it may be theirs.
func TestRun_takeProfile_of_a_tool_that_is_profiled(t *testing.T) {
	r := &run{place: &place{profiled: map[string]profiled{"mine": {"a.py", []string{"one"}}}}}
	for _, tool := range []string{"other", "mine"} {
		res := &haft.Result{Artifacts: []haft.Artifact{{Name: "x"}, {Name: profileArtifact, Data: []byte("5 1\n")}}}
		r.takeProfile(tool, res)
		want := map[string]int{"other": 2, "mine": 1}[tool]
		if len(res.Artifacts) != want || len(r.spent) != 2-want {
			t.Errorf("%s has %d artifacts, and the profile %v", tool, len(res.Artifacts), r.spent)
		}
	}
}
