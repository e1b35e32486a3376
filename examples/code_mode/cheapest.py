# What a model writes instead of six calls one after the other.
prices = {p["name"]: convert(euros=p["euros"], to="NOK") for p in list_products()}
print(len(prices), "products")
sorted(prices.items(), key=lambda item: item[1])[:2]
