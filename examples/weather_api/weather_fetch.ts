/**
 * Say how warm it is.
 * @param city The name of the city.
 * @param wait For how many seconds to wait for the weather service.
 */
export async function weather_fetch(city: string, wait: number = 20): Promise<string> {
  let answer: Response;
  let body: string;
  try {
    answer = await fetch("https://api.weather.example/v1/now?city=" + encodeURIComponent(city), {
      headers: { Authorization: "Bearer " + process.env.WEATHER_KEY },
      signal: AbortSignal.timeout(wait * 1000),
    });
    body = await answer.text();
  } catch (error) {
    if ((error as Error).name === "TimeoutError") throw new Error("the weather service takes too long");
    throw error;
  }
  if (answer.status === 401) throw new Error("the weather service does not accept the key");
  if (answer.status === 429) throw new Error(`too many questions: ask again in ${answer.headers.get("retry-after")} seconds`);
  if (answer.status !== 200) throw new Error(`the weather service failed with status ${answer.status}`);
  let temp: unknown;
  try {
    temp = JSON.parse(body).temp;
  } catch {
    temp = undefined;
  }
  if (temp === undefined) throw new Error("the weather service sent something that is no weather");
  return `${temp} °C in ${city}`;
}
