package credential_test

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"image/png"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	library "github.com/pquerna/otp/totp"

	"opportunity.internal/services/authquota/internal/credential"
)

// RFC 6238, appendix B, SHA-1. The last six of its eight digits are the six-digit code.
func TestTheVectorsOfTheStandard(t *testing.T) {
	seed := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for unix, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		step, ok := credential.CodeStep(seed, code[2:], time.Unix(unix, 0))
		require.True(t, ok, unix)
		require.Equal(t, unix/30, step)
	}
}

func TestACodeIsRightOneStepEitherSideAndNoFurther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := credential.NewSeed()
		at := time.Unix(rapid.Int64Range(60, 1<<34).Draw(t, "at"), 0)
		code, err := library.GenerateCode(seed, at)
		require.NoError(t, err)
		written := fmt.Sprintf(rapid.SampledFrom([]string{"%s%s", "%s %s", " %s-%s ", "%s\u00a0%s", "\t%s\t%s\r\n", "\u200b%s\u2009%s\ufeff", "\u202a%s–%s\u202c", "%s·%s."}).Draw(t, "written"), code[:3], code[3:])
		off := rapid.Int64Range(-3, 3).Draw(t, "off")
		now := at.Add(time.Duration(off) * 30 * time.Second)
		step, ok := credential.CodeStep(seed, written, now)
		if off >= -1 && off <= 1 {
			require.True(t, ok)
			require.InDelta(t, at.Unix()/30, step, 2, "two steps may have the same code")
		} else if ok { // probability 1 in 333,333
			right, err := library.GenerateCode(seed, time.Unix(step*30, 0))
			require.NoError(t, err)
			require.Equal(t, code, right)
		}
		if ok {
			require.InDelta(t, now.Unix()/30, step, 1)
		}
	})
}

func TestWhatIsNoCode(t *testing.T) {
	seed, now := credential.NewSeed(), time.Unix(1_800_000_000, 0)
	code, err := library.GenerateCode(seed, now)
	require.NoError(t, err)
	for _, bad := range []string{"", "0", code[:5], code + "0", "a" + code[1:], "+" + code[1:], "６" + code, "½" + code[1:], code + code, code + "x"} {
		_, ok := credential.CodeStep(seed, bad, now)
		require.False(t, ok, "%q", bad)
	}
	_, ok := credential.CodeStep("no seed!", code, now)
	require.False(t, ok)
	_, ok = credential.CodeStep("", "328482", time.Unix(0, 0))
	require.False(t, ok && seed == "")
}

func TestDigitsOfEveryScriptAreAccepted(t *testing.T) {
	seed, now := credential.NewSeed(), time.Unix(1_800_000_000, 0)
	code, err := library.GenerateCode(seed, now)
	require.NoError(t, err)
	for _, zero := range "０٠۰०๐𝟎𝟶" {
		typed := strings.Map(func(r rune) rune { return zero + r - '0' }, code)
		_, ok := credential.CodeStep(seed, typed, now)
		require.True(t, ok, typed)
	}
	require.Equal(t, "7KQX", credential.TypedCode(" ７ＫＱ-\u00a0Ｘ"))
	for value, r := range []rune("0123456789") {
		require.Equal(t, string(r), credential.TypedCode(string(rune('\u0BE6'+value))))
	}
}

func TestSeeds(t *testing.T) {
	seed := credential.NewSeed()
	raw, err := base32.StdEncoding.DecodeString(seed)
	require.NoError(t, err, "no padding to confuse apps")
	require.Len(t, raw, 20)
	require.NotEqual(t, seed, credential.NewSeed())
	require.Equal(t, "ABCD EFGH IJ", credential.GroupSeed("ABCDEFGHIJ"))
}

func TestURI(t *testing.T) {
	const want = "otpauth://totp/Opportunity%20Data:ada%2Bx%40example.org?secret=JBSWY3DPEHPK3PXP&issuer=Opportunity%20Data&algorithm=SHA1&digits=6&period=30"
	uri := credential.SeedURI("JBSWY3DPEHPK3PXP", "ada+x@example.org", "Opportunity Data")
	require.Equal(t, want, uri)
	key, err := otp.NewKeyFromURL(credential.SeedURI("JBSWY3DPEHPK3PXP", "a?b&c#d/e:f@example.org", "O&D"))
	require.NoError(t, err)
	require.Equal(t, "a?b&c#d/e:f@example.org", key.AccountName(), "an address cannot change what the app shows")
	require.Equal(t, "O&D", key.Issuer())
	u, err := url.Parse(key.String())
	require.NoError(t, err)
	require.Len(t, u.Query(), 5)
}

func TestQR(t *testing.T) {
	drawn, err := credential.SeedQR(credential.SeedURI(credential.NewSeed(), "ada@example.org", "Opportunity Data API"))
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(drawn))
	require.NoError(t, err)
	dark := func(x, y int) bool { r, _, _, _ := picture.At(x, y).RGBA(); return r == 0 }
	size := picture.Bounds().Dx()
	require.Equal(t, size, picture.Bounds().Dy())
	for i := range size {
		for margin := range 24 {
			for _, p := range [][2]int{{i, margin}, {margin, i}, {i, size - 1 - margin}, {size - 1 - margin, i}} {
				require.False(t, dark(p[0], p[1]), "a white margin, also on a dark page")
			}
		}
	}
	for _, corner := range [][2]int{{24, 24}, {size - 25, 24}, {24, size - 25}} {
		require.True(t, dark(corner[0], corner[1]), "a finder in three corners")
	}
	require.Less(t, len(drawn), 8<<10)
	_, err = credential.SeedQR(string(make([]byte, 8000)))
	require.Error(t, err)
}
