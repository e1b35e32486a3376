// Package words splits text into the words by which tools, passages and messages are searched, and ranks what has them.
package words

import "unicode"

// maxRunes is the length of the longest word. The rest of a longer one is left out.
const maxRunes = 48

// Split splits text into at most so many words in lower case. Words end where
// letters and digits do, and between a small and a capital letter. In scripts
// without spaces every character is a word.
func Split(text string, most int) []string {
	var list []string
	var word []rune
	flush := func() {
		if len(word) > 0 && len(list) < most {
			list = append(list, string(word[:min(len(word), maxRunes)]))
		}
		word = word[:0]
	}
	small := false
	for _, r := range text {
		if len(list) >= most {
			break
		}
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			flush()
			word = append(word, r)
			flush()
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if small && unicode.IsUpper(r) {
				flush()
			}
			if len(word) < maxRunes {
				word = append(word, unicode.ToLower(r))
			}
		default:
			flush()
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
	}
	flush()
	return list
}
