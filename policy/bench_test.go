package policy_test

import (
	"fmt"
	"testing"

	"haft/policy"
)

// manyRules makes a policy of n rules, a tenth of them with an expression that is
// evaluated.
func manyRules(t testing.TB, n int) *policy.Policy {
	rules := []string{"{id: all, effect: allow, rate: {per_second: 5}}"}
	for i := range n {
		r := fmt.Sprintf(`{id: r%d, effect: deny, tools: ["tool:x%d_*"]}`, i, i)
		if i%10 == 0 {
			r = fmt.Sprintf(`{id: r%d, effect: deny, when: 'args.a > 10 && args.b.startsWith("x")'}`, i)
		}
		rules = append(rules, r)
	}
	return compile(t, rules)
}

func BenchmarkPolicy_Decide(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := manyRules(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if p.Decide(benchRequest).Effect != policy.Allow {
					b.Fatal("denied")
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		manyRules(b, 10)
	}
}
