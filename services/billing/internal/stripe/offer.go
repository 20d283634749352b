package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	api "github.com/stripe/stripe-go/v86"

	contract "opportunity.internal/pkg/api"
)

// sold is the plan of the plan table that Stripe sells.
func sold() contract.Plan {
	i := slices.IndexFunc(contract.Plans, func(p contract.Plan) bool { return p.MonthlyUSD > 0 })
	return contract.Plans[i]
}

// CheckOffer compares the price of the settings, and its product, with the plan table.
func (s *Stripe) CheckOffer(ctx context.Context) error {
	p := &api.PriceRetrieveParams{}
	p.AddExpand("product")
	price, err := s.client.V1Prices.Retrieve(ctx, s.price, p)
	if err != nil {
		return failure("price "+s.price, err)
	}
	plan := sold()
	var wrong []string
	want := func(what string, is, should any) {
		if is != should {
			wrong = append(wrong, fmt.Sprintf("%s is %v and should be %v", what, is, should))
		}
	}
	want("its currency", strings.ToLower(string(price.Currency)), "usd")
	want("its amount in cents", price.UnitAmount, int64(plan.MonthlyUSD)*100)
	want("whether it is active", price.Active, true)
	if price.Recurring == nil {
		wrong = append(wrong, "it is charged once and should recur every month")
	} else {
		want("its interval", fmt.Sprintf("%d %s", price.Recurring.IntervalCount, price.Recurring.Interval), "1 month")
		want("its usage", string(price.Recurring.UsageType), "licensed")
	}
	if price.Product == nil {
		wrong = append(wrong, "it has no product")
	} else {
		want("the name of its product", price.Product.Name, plan.Name)
		want("whether its product is active", price.Product.Active, true)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("OPPORTUNITY_STRIPE_PRICE %s is not the plan %s of the plan table: %s", s.price, plan.Name, words(wrong))
	}
	s.product.Store(&price.Product.ID)
	return nil
}

// sells is the product that is sold. Subscriptions keep it when its price changes.
func (s *Stripe) sells(ctx context.Context) (string, error) {
	if known := s.product.Load(); known != nil {
		return *known, nil
	}
	price, err := s.client.V1Prices.Retrieve(ctx, s.price, &api.PriceRetrieveParams{})
	if err != nil {
		return "", failure("price "+s.price, err)
	}
	if price.Product == nil {
		return "", fmt.Errorf("stripe: price %s has no product", s.price)
	}
	s.product.Store(&price.Product.ID)
	return price.Product.ID, nil
}

// digest makes an idempotency key of all that a request says: the same key with another request is an error of Stripe.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
