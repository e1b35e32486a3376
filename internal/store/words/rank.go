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
	maxTextWords  = 20_000 // that are looked at
	maxTextTerms  = 1_000  // that a text is found by
	maxWeight     = 8
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

// OfText returns the words that a text is found by, with how often they are in it, up to a bound. Of a long text that
// is its beginning.
func OfText(text string) map[string]int64 {
	weights := make(map[string]int64)
	for _, w := range Split(text, maxTextWords) {
		if _, ok := weights[w]; ok || len(weights) < maxTextTerms {
			weights[w] = min(weights[w]+1, maxWeight)
		}
	}
	return weights
}

// A Candidate is a tool, or something else that is searched, that has some of the words of a query.
type Candidate struct {
	ID string
	// Score is how well it fits, once it was ranked.
	Score float64
	has   [maxQueryWords]int64 // the weight of each word of the query in it
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
	for id, one := range c {
		one.Score = 0
		for word, weight := range one.has[:len(rare)] {
			if weight > 0 {
				one.Score += 1000 + float64(weight)*rare[word]
			}
		}
		if id == named {
			one.Score = math.Inf(1)
		}
	}
	return slices.SortedFunc(maps.Values(c), func(a, b *Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
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
