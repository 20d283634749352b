package credential

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/boombuler/barcode/qr"
	"github.com/pquerna/otp/hotp"
	"golang.org/x/text/unicode/norm"
)

// Authenticator apps are time-based one-time passwords (RFC 6238) with SHA-1, six digits and steps
// of 30 seconds, which every app supports.
const (
	period    = 30 // seconds
	seedBytes = 20 // as long as the hash, as RFC 4226 requires
	skewSteps = 1  // accepted clock difference in steps
	digits    = 6
)

var seeds = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewSeed returns a random seed in the form that apps accept.
func NewSeed() string {
	random := make([]byte, seedBytes)
	_, _ = rand.Read(random) // never fails
	return seeds.EncodeToString(random)
}

// Group writes a seed or a code in groups of four for reading.
func Group(seed string) string {
	var b strings.Builder
	for i, r := range seed {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// SeedURI returns the content of the SeedQR code: the seed, labeled with issuer and email. It is
// secret.
func SeedURI(seed, email, issuer string) string {
	return "otpauth://totp/" + escape(issuer) + ":" + escape(email) + "?secret=" + seed +
		"&issuer=" + escape(issuer) + "&algorithm=SHA1&digits=6&period=30"
}

// escape encodes s for any part of the SeedURI. Apps show a plus sign literally, so spaces are
// encoded as %20.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

const (
	modulePixels = 6
	quietModules = 4 // required margin; also white on a dark page
)

// SeedQR renders a SeedURI as a PNG image.
func SeedQR(uri string) ([]byte, error) {
	code, err := qr.Encode(uri, qr.M, qr.Auto)
	if err != nil {
		return nil, err
	}
	modules := code.Bounds().Dx()
	size := (modules + 2*quietModules) * modulePixels
	picture := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.White, color.Black})
	for y := range modules {
		for x := range modules {
			if r, _, _, _ := code.At(x, y).RGBA(); r == 0 {
				at := image.Pt(x+quietModules, y+quietModules).Mul(modulePixels)
				draw.Draw(picture, image.Rectangle{at, at.Add(image.Pt(modulePixels, modulePixels))}, image.Black, image.Point{},
					draw.Src)
			}
		}
	}
	var out bytes.Buffer
	err = png.Encode(&out, picture)
	return out.Bytes(), err
}

// TypedCode returns a code as people type or paste it without spaces, hyphens and other separators,
// with its letters and digits in ASCII where they are forms of these, such as full-width or Arabic
// digits.
func TypedCode(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Nd, r):
			return '0' + digit(r)
		case unicode.IsLetter(r):
			return r
		}
		return -1
	}, norm.NFKC.String(code))
}

// digit returns the value of a decimal digit. Unicode has the ten digits of a script in order, and
// no other digit right before them.
func digit(r rune) (value rune) {
	for unicode.Is(unicode.Nd, r-value-1) {
		value++
	}
	return value
}

// CodeStep returns the step for which code is valid at now, allowing one step of clock difference.
// Codes are single-use: the caller must store the accepted step and reject codes of this or an
// earlier step.
func CodeStep(seed, code string, now time.Time) (step int64, ok bool) {
	code = TypedCode(code)
	if len(code) != digits {
		return 0, false
	}
	current := now.Unix() / period
	for s := max(current-skewSteps, 0); s <= current+skewSteps; s++ { // check all, for constant time
		right, err := hotp.GenerateCode(seed, uint64(s)) //nolint:gosec // not negative
		if err == nil && subtle.ConstantTimeCompare([]byte(right), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok
}
