package value_test

import (
	"context"
	"fmt"

	"haft"
	"haft/internal/value"
)

// What a tool printed becomes data, is held against what was promised, and is cut
// to what a model gets to see.
func Example() {
	v, _ := value.Read("Found these: {\"total\": 2, \"items\": [\"a\", \"b\"]}", haft.OutputJSON)
	fmt.Println(string(v))
	rules, _ := value.CompileValidators([]string{"value.total == size(value.items)", "value.total > 5"})
	for _, m := range rules.Check(context.Background(), v) {
		fmt.Println("the value", m.Message)
	}
	short, left := value.Cut(v, 20)
	fmt.Println(string(short), left)
	// Output:
	// {"total":2,"items":["a","b"]}
	// the value does not satisfy validator 2: value.total > 5
	// "{\"total\":2,\"items\":[" 9
}
