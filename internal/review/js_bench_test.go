package review_test

import (
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/internal/review"
)

// BenchmarkReview_typescript reviews 100 kB, which is far more than a tool has.
func BenchmarkReview_typescript(b *testing.B) {
	var source strings.Builder
	source.WriteString("import { readFile } from \"node:fs/promises\";\n")
	for i := 0; source.Len() < 100_000; i++ {
		fmt.Fprintf(&source, "export async function read%d(path: string, limit: number = %d): Promise<string[]> {\n"+
			"  const text = await readFile(`${path}/notes-%d.txt`, \"utf8\");\n"+
			"  return text.split(/\\r?\\n/).filter((line) => line.length / 2 < limit).map((s) => s.trim() + "+
			"\"!\");\n}\n", i, i, i)
	}
	r := review.New(review.Config{})
	b.SetBytes(int64(source.Len()))
	for b.Loop() {
		report, err := r.Review(b.Context(), haft.KindTypeScript, source.String())
		if err != nil || len(report.Findings) > 0 {
			b.Fatal(report.Findings, err)
		}
	}
}
