package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/credential"
)

// RecoveryCodeCount is the number of codes in a set.
const RecoveryCodeCount = 10

// codeBytes gives more than 112 random bits, so a fast hash without salt is safe.
const codeBytes = 15

// codeLetters omits characters that are easily confused: i, l, o and u.
const codeLetters = "0123456789abcdefghjkmnpqrstvwxyz"

var codeEncoding = base32.NewEncoding(codeLetters).WithPadding(base32.NoPadding)

// NewRecoveryCodes returns a new set of codes, written in groups, and their hashes.
func NewRecoveryCodes() (codes, hashes []string) {
	for range RecoveryCodeCount {
		random := make([]byte, codeBytes)
		_, _ = rand.Read(random) // never fails
		code := strings.ReplaceAll(credential.Group(codeEncoding.EncodeToString(random)), " ", "-")
		codes, hashes = append(codes, code), append(hashes, HashRecoveryCode(code))
	}
	return codes, hashes
}

// HashRecoveryCode returns the stored form of a code. It ignores case and separators, and maps
// letters that look like digits to these. The hash of text that is not a code never equals that of
// a code.
func HashRecoveryCode(code string) string {
	sum := sha256.Sum256([]byte("recovery code " + normalizeCode(code)))
	return hex.EncodeToString(sum[:])
}

// IsRecoveryCode reports whether text has the form of a recovery code, as opposed to a code of the
// authenticator.
func IsRecoveryCode(text string) bool {
	code := normalizeCode(text)
	_, err := codeEncoding.DecodeString(code)
	return err == nil && len(code) == codeEncoding.EncodedLen(codeBytes)
}

var codeReplacer = strings.NewReplacer("o", "0", "i", "1", "l", "1")

func normalizeCode(code string) string {
	return codeReplacer.Replace(strings.ToLower(credential.TypedCode(code)))
}

func useRecoveryCode(tx *accountdb.Tx, accountID, hash string) error {
	if err := tx.Remember(accountID); err != nil {
		return err
	}
	unused := tx.Model(&codeRow{}).Where("account_id = ? AND hash = ? AND used_at IS NULL", accountID, hash)
	err := accountdb.Changed(unused.Update("used_at", database.Micros(tx.Now)),
		problem.New(problem.InvalidParameter, "This recovery code is wrong or was already used."))
	if err != nil {
		return err
	}
	var left int64
	if err := tx.Model(&codeRow{}).Where("account_id = ? AND used_at IS NULL", accountID).Count(&left).Error; err != nil {
		return err
	}
	return errors.Join(
		tx.Record(accountID, "recovery_code.use", accountID, map[string]any{"left": left}),
		tx.Notify(accountID, "recovery-code-used", map[string]string{"left": strconv.FormatInt(left, 10)}))
}

type codeRow struct {
	AccountID string `gorm:"primaryKey"`
	Hash      string `gorm:"primaryKey"`
	UsedAt    *int64
}

func (codeRow) TableName() string { return "recovery_codes" }

func replaceCodes(tx *accountdb.Tx, accountID string, hashes []string) error {
	if err := tx.Remember(accountID); err != nil {
		return err
	}
	err := tx.Delete(&codeRow{}, "account_id = ?", accountID).Error
	for _, h := range hashes {
		if err == nil {
			err = tx.Create(&codeRow{AccountID: accountID, Hash: h}).Error
		}
	}
	return err
}

// RenewCodes replaces the recovery codes of an account.
func (s *Store) RenewCodes(ctx context.Context, accountID string, hashes []string) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		if err := replaceCodes(tx, accountID, hashes); err != nil {
			return err
		}
		return errors.Join(
			tx.Record(accountID, "recovery_code.renew", accountID, map[string]any{}),
			tx.Notify(accountID, "factor-changed", map[string]string{"what": "new recovery codes"}))
	})
}
