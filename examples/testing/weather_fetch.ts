/**
 * Say how warm it is in a city.
 * @param city The name of the city.
 */
export async function temperature(city: string): Promise<number> {
  const answer = await fetch(`https://api.weather.example/v1/now?city=${encodeURIComponent(city)}`);
  if (answer.status === 429) throw new Error(`too many requests: wait ${answer.headers.get("retry-after")} s`);
  if (!answer.ok) throw new Error(`the weather service answers ${answer.status}`);
  return (await answer.json()).celsius;
}
