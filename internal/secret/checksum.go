package secret

import "strings"

// isCard reports whether digits, written in groups, are the number of a payment
// card: of a known range, and with the check digit of Luhn.
func isCard(digits []byte, groups []group) bool {
	if len(digits) < 13 || len(digits) > 19 || digits[0] < '2' || digits[0] > '6' {
		return false
	}
	if len(groups) > 1 {
		for i, g := range groups {
			n := g.end - g.start
			amex := len(digits) == 15 && len(groups) == 3 && (i == 0 && n == 4 || i == 1 && n == 6 || i == 2 && n == 5)
			if n != 4 && !amex && i < len(groups)-1 {
				return false
			}
		}
	}
	return luhn(digits) && strings.Trim(string(digits), string(digits[:1])) != ""
}

// luhn checks the last digit (ISO/IEC 7812-1).
func luhn(digits []byte) bool {
	sum := 0
	for i := range digits {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// isNational reports whether digits are a national number: a formatted Brazilian CPF, a
// French NIR or a Polish PESEL. The checks of other countries pass for one number in
// ten, and their numbers have no format that distinguishes them.
func isNational(digits []byte, groups []group) bool {
	switch {
	case len(digits) == 11 && len(groups) == 4:
		return groups[1].sep == "." && groups[2].sep == "." && groups[3].sep == "-" && cpf(digits)
	case len(digits) == 15 && len(groups) == 1:
		return nir(digits)
	case len(digits) == 11 && len(groups) == 1:
		return pesel(digits)
	}
	return false
}

// weighted returns the sum of digits times weights.
func weighted(digits []byte, weights ...int) int {
	sum := 0
	for i, w := range weights {
		sum += int(digits[i]-'0') * w
	}
	return sum
}

func cpf(d []byte) bool {
	first := weighted(d, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10
	second := weighted(d, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2) * 10 % 11 % 10
	return int(d[9]-'0') == first && int(d[10]-'0') == second
}

func nir(d []byte) bool {
	if month := twoDigits(d[3:]); d[0] != '1' && d[0] != '2' || month < 1 || month > 12 && month < 20 {
		return false
	}
	n := 0
	for _, c := range d[:13] {
		n = n*10 + int(c-'0')
	}
	return 97-n%97 == twoDigits(d[13:])
}

func pesel(d []byte) bool {
	month, day := twoDigits(d[2:])%20, twoDigits(d[4:])
	check := (10 - weighted(d, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3)%10) % 10
	return month >= 1 && month <= 12 && day >= 1 && day <= 31 && check == int(d[10]-'0')
}

// twoDigits returns the number of the first two digits.
func twoDigits(d []byte) int { return int(d[0]-'0')*10 + int(d[1]-'0') }

// isSpanishID reports whether a word of nine bytes is a Spanish DNI or NIE.
func isSpanishID(w []byte) bool {
	n := 0
	for i, c := range w[:8] {
		switch {
		case '0' <= c && c <= '9':
			n = n*10 + int(c-'0')
		case i == 0 && 'X' <= c && c <= 'Z':
			n = int(c - 'X')
		default:
			return false
		}
	}
	return w[8] == "TRWAGMYFPDXBNJZSQVHLCKE"[n%23]
}

// beginsIBAN reports whether w begins with a country and check digits.
func beginsIBAN(w []byte) bool {
	return isLetter(w[0]) && isLetter(w[1]) && isDigit(w[2]) && isDigit(w[3])
}

func isLetter(b byte) bool { return 'a' <= lower(b) && lower(b) <= 'z' }
func isDigit(b byte) bool  { return '0' <= b && b <= '9' }

// isIBAN checks the length and the check digits of an IBAN (ISO 13616).
func isIBAN(text []byte) bool {
	if len(text) < 15 || len(text) > longestIBAN || !beginsIBAN(text) {
		return false
	}
	var packed []byte
	for _, c := range text {
		if c != ' ' {
			packed = append(packed, lower(c))
		}
	}
	if len(packed) < 15 || len(packed) > 34 {
		return false
	}
	rest := 0
	for i := range packed {
		c := packed[(i+4)%len(packed)]
		switch {
		case isDigit(c):
			rest = (rest*10 + int(c-'0')) % 97
		case isLetter(c):
			rest = (rest*100 + int(c-'a') + 10) % 97
		default:
			return false
		}
	}
	return rest == 1
}
