package credential_test

import (
	"bytes"
	"context"
	"encoding/base32"
	"fmt"
	"image/png"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/pquerna/otp"
	library "github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/testkit"
)

const email = "ada.lovelace@example.org"

func TestCheck(t *testing.T) {
	for pw, want := range map[string]error{
		"correct horse battery staple":    credential.TooEasy,
		"correcthorsebatterystaple":       credential.TooEasy,
		"Correct-Horse-Battery-Staple-1!": credential.TooEasy,
		"You shall not pass! 2026":        credential.TooEasy,
		"liverpoolfc1892":                 credential.TooEasy,
		"ill be back kX9mQ2vL5pR":         credential.TooEasy, // adds too little to a phrase
		"ill be back kX9mQ2vL5pRt":        nil,
		"correct mule battery walnut":     nil,
		"walnut-harbour-42":               nil,
		"kX9#mQ2$vL5p":                    nil,
		"über große Straßenlaternen":      nil,
		"もしもし、これは秘密です":                    nil,
		" spaces at both ends count ":     nil,
		strings.Repeat("kX9#mQ2$", 16):    nil,
		"":                                credential.TooShort,
		"kX9#mQ2$vL5":                     credential.TooShort,
		"日本日本日本日本日本日":                     credential.TooShort,
		strings.Repeat("kX9#mQ2$", 17):    credential.TooLong,
		"correct horse\nbattery":          credential.NotText,
		"correct horse \x00battery":       credential.NotText,
		"correct horse \xff battery":      credential.NotText,
		email:                             credential.IsAddress,
		" Ada.Lovelace@Example.org ":      credential.IsAddress,
		"ada.lovelace":                    credential.TooEasy,
		"lovelace1815!":                   credential.TooEasy,
		"Opportunity2026":                 credential.TooEasy,
		"password1234":                    credential.TooEasy,
		"P@ssw0rd1234":                    credential.TooEasy,
		"qwertyuiop12":                    credential.TooEasy,
		"123456789012":                    credential.TooEasy,
		"aaaaaaaaaaaaaaaa":                credential.TooEasy,
		"abcdefghijklmnop":                credential.TooEasy,
		"iloveyouforever":                 credential.TooEasy,
		"Summer2026!!":                    credential.TooEasy,
		strings.Repeat("passwordabcd", 9): credential.TooEasy,
	} {
		require.Equal(t, want, credential.CheckPassword(pw, email), "%q", pw)
	}
}

// No list of words has these parts of the address.
func TestPartsOfTheAddressAreEasy(t *testing.T) {
	const pw = "quexvillop-branti7far"
	require.NoError(t, credential.CheckPassword(pw, email))
	require.Equal(t, credential.TooEasy, credential.CheckPassword(pw, "Quexvillop.Branti7far@example.org"))
}

func TestRejectionNeverQuotesThePassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pw := rapid.StringN(0, 140, 600).Draw(t, "password")
		if err := credential.CheckPassword(pw, email); err != nil && len(pw) > 8 {
			require.NotContains(t, err.Error(), pw)
		}
	})
}

func TestHashAndVerify(t *testing.T) {
	ctx := t.Context()
	credential.PasswordCost = testkit.ProductionCost
	hash := storetest.Must(credential.HashPassword(ctx, "walnut-harbour-42"))(t)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$"), hash)
	require.NotEqual(t, hash, storetest.Must(credential.HashPassword(ctx, "walnut-harbour-42"))(t), "a salt for each")
	for pw, want := range map[string]bool{"walnut-harbour-42": true, "Walnut-harbour-42": false,
		"walnut-harbour-42 ": false, "": false} {
		ok, outdated := verify(t, pw, hash)
		require.Equal(t, want, ok, "%q", pw)
		require.False(t, outdated)
	}
	for _, pw := range []string{"", "a password that no account has", "walnut-harbour-42"} {
		ok, _ := verify(t, pw, "")
		require.False(t, ok, "the empty hash never verifies")
	}
	for _, broken := range []string{"plain", "$argon2id$v=19$m=19456", strings.Replace(hash, "argon2id", "argon2i", 1)} {
		ok, _, err := credential.VerifyPassword(ctx, "walnut-harbour-42", broken)
		require.Error(t, err)
		require.False(t, ok)
	}
	weak := storetest.Must(argon2id.CreateHash("walnut-harbour-42", &argon2id.Params{
		Memory: 8 * 1024, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32,
	}))(t)
	ok, outdated := verify(t, "walnut-harbour-42", weak)
	require.True(t, ok && outdated, "a hash of earlier figures")
}

func verify(t *testing.T, password, hash string) (ok, outdated bool) {
	t.Helper()
	ok, outdated, err := credential.VerifyPassword(t.Context(), password, hash)
	require.NoError(t, err)
	return ok, outdated
}

func TestNormalFormOfAPasswordDoesNotMatter(t *testing.T) {
	const nfc, nfd = "über große Straßenlaternen", "u\u0308ber\u00a0große Straßenlaternen"
	for _, first := range []string{nfc, nfd} {
		hash := storetest.Must(credential.HashPassword(t.Context(), first))(t)
		for _, typed := range []string{nfc, nfd} {
			ok, _ := verify(t, typed, hash)
			require.True(t, ok)
		}
	}
	require.Equal(t, credential.TooShort, credential.CheckPassword(strings.Repeat("e\u0301", 11), email),
		"two characters are counted as one")
}

// Excess callers wait for a slot and leave when their context ends. Afterwards all slots are free
// again.
func TestExcessCallersWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	storetest.Together(64, func(i int) error {
		if i == 32 {
			cancel()
		}
		return storetest.Err(credential.HashPassword(ctx, "walnut-harbour-42"))
	})
	storetest.Must(credential.HashPassword(t.Context(), "walnut-harbour-42"))(t)
	for range 50 { // with a free slot and an ended context, either may win
		if _, err := credential.HashPassword(ctx, "x"); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		if ok, _, err := credential.VerifyPassword(ctx, "walnut-harbour-42", ""); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.False(t, ok)
		}
	}
}

// RFC 6238, appendix B, SHA-1. The last six of its eight digits are the six-digit code.
func TestTheVectorsOfTheStandard(t *testing.T) {
	seed := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for unix, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037",
		20000000000: "65353130",
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
		code := storetest.Must(library.GenerateCode(seed, at))(t)
		written := fmt.Sprintf(rapid.SampledFrom(
			[]string{"%s%s", "%s %s", " %s-%s ", "%s\u00a0%s", "\t%s\t%s\r\n", "\u200b%s\u2009%s\ufeff", "\u202a%s–%s\u202c",
				"%s·%s."}).Draw(t, "written"), code[:3], code[3:])
		off := rapid.Int64Range(-3, 3).Draw(t, "off")
		now := at.Add(time.Duration(off) * 30 * time.Second)
		step, ok := credential.CodeStep(seed, written, now)
		if off >= -1 && off <= 1 {
			require.True(t, ok)
			require.InDelta(t, at.Unix()/30, step, 2, "two steps may have the same code")
		} else if ok { // probability 1 in 333,333
			require.Equal(t, code, storetest.Must(library.GenerateCode(seed, time.Unix(step*30, 0)))(t))
		}
		if ok {
			require.InDelta(t, now.Unix()/30, step, 1)
		}
	})
}

func TestWhatIsNoCode(t *testing.T) {
	seed, now := credential.NewSeed(), time.Unix(1_800_000_000, 0)
	code := storetest.Must(library.GenerateCode(seed, now))(t)
	for _, bad := range []string{"", "0", code[:5], code + "0", "a" + code[1:], "+" + code[1:], "６" + code,
		"½" + code[1:], code + code, code + "x"} {
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
	code := storetest.Must(library.GenerateCode(seed, now))(t)
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
	require.Equal(t, "ABCD EFGH IJ", credential.Group("ABCDEFGHIJ"))
}

func TestURI(t *testing.T) {
	const want = "otpauth://totp/Opportunity%20Data:ada%2Bx%40example.org?secret=JBSWY3DPEHPK3PXP&issuer=Opportunity%20Data&algorithm=SHA1&digits=6&period=30"
	uri := credential.SeedURI("JBSWY3DPEHPK3PXP", "ada+x@example.org", "Opportunity Data")
	require.Equal(t, want, uri)
	key := storetest.Must(otp.NewKeyFromURL(credential.SeedURI("JBSWY3DPEHPK3PXP", "a?b&c#d/e:f@example.org", "O&D")))(t)
	require.Equal(t, "a?b&c#d/e:f@example.org", key.AccountName(), "an address cannot change what the app shows")
	require.Equal(t, "O&D", key.Issuer())
	require.Len(t, storetest.Must(url.Parse(key.String()))(t).Query(), 5)
}

func TestQR(t *testing.T) {
	drawn, err := credential.SeedQR(credential.SeedURI(credential.NewSeed(), "ada@example.org", "Opportunity Data API"))
	require.NoError(t, err)
	picture := storetest.Must(png.Decode(bytes.NewReader(drawn)))(t)
	dark := func(x, y int) bool { r, _, _, _ := picture.At(x, y).RGBA(); return r == 0 }
	size := picture.Bounds().Dx()
	require.Equal(t, size, picture.Bounds().Dy())
	for i := range size {
		require.False(t, dark(i, 23) || dark(23, i) || dark(i, size-24) || dark(size-24, i), "a white margin")
	}
	require.True(t, dark(24, 24) && dark(size-25, 24) && dark(24, size-25), "a finder in three corners")
	require.Error(t, storetest.Err(credential.SeedQR(string(make([]byte, 8000)))))
}
