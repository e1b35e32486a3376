package words

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"haft"
)

// The bounds of a search.
const (
	maxQueryWords = 8
	maxToolWords  = 512
)

// What a word weighs by the place it stands in.
const (
	weightName        = 8
	weightTag         = 5
	weightCategory    = 4
	weightDescription = 2
)

// OfTool returns the words that a tool is found by, with their weights.
func OfTool(t *haft.Tool, description string) map[string]int64 {
	weights := make(map[string]int64)
	add := func(text string, weight int64) {
		for _, w := range Split(text, maxToolWords) {
			if _, ok := weights[w]; !ok && len(weights) >= maxToolWords {
				return
			}
			weights[w] = max(weights[w], weight)
		}
	}
	add(t.Name, weightName)
	add(t.Category, weightCategory)
	for _, tag := range t.Tags {
		add(tag, weightTag)
	}
	add(description, weightDescription)
	return weights
}

// A Candidate is a tool that has some of the words of a query.
type Candidate struct {
	ID  string
	has [maxQueryWords]int64 // the weight of each word of the query in it
}

// Candidates are those of one search, by id.
type Candidates map[string]*Candidate

// Note keeps that a tool has word number i of the query.
func (c Candidates) Note(i int, id string, weight int64) {
	if c[id] == nil {
		c[id] = &Candidate{ID: id}
	}
	c[id].has[i] = max(c[id].has[i], weight)
}

// Rank orders candidates: the one that was named, those with most of the words,
// those with the weightiest.
func (c Candidates) Rank(rare []float64, named string) []*Candidate {
	scores := make(map[string]float64, len(c))
	for id, one := range c {
		for word, weight := range one.has[:len(rare)] {
			if weight > 0 {
				scores[id] += 1000 + float64(weight)*rare[word]
			}
		}
		if id == named {
			scores[id] = math.Inf(1)
		}
	}
	return slices.SortedFunc(maps.Values(c), func(a, b *Candidate) int {
		return cmp.Or(cmp.Compare(scores[b.ID], scores[a.ID]), strings.Compare(a.ID, b.ID))
	})
}

// OfQuery returns the words of a query.
func OfQuery(text string) []string {
	var asked []string
	for _, w := range Split(text, maxToolWords) {
		if !slices.Contains(asked, w) && len(asked) < maxQueryWords {
			asked = append(asked, w)
		}
	}
	return asked
}
